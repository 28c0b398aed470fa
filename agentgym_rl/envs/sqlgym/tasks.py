"""From task indices to questions about built-in databases. Everything is a function of the index.

Indices below :data:`FIRST` are AgentGym's, which need BIRD. From there on the difficulties take turns, then the
domains. Each split has databases of its own, and the fingerprint of a query decides which split may ask for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from random import Random

from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.sqlgym.bird import RANGES
from agentgym_rl.envs.sqlgym.database import Database, database
from agentgym_rl.envs.sqlgym.domains import DOMAINS
from agentgym_rl.envs.sqlgym.question import Question
from agentgym_rl.envs.sqlgym.sandbox import Limits, Row, Sandbox
from agentgym_rl.envs.sqlgym.templates import TEMPLATES, Draft, Draw

FIRST = 20_000

SPLITS: Mapping[str, range] = {
    "train": range(FIRST, 20_400),
    "test": range(20_400, 20_520),
    "train_variants": range(20_520, 32_520),
    "val_variants": range(32_520, 33_720),
    "test_variants": range(33_720, 34_920),
}
"""Task indices of each split."""

SEED = "sqlgym 7"
"""Under this seed no question occurs twice in ``train`` or ``test``."""

VERSIONS: Mapping[str, range] = {
    "train": range(0, 100),
    "test": range(100, 150),
    "train_variants": range(150, 350),
    "val_variants": range(350, 450),
    "test_variants": range(450, 550),
}
"""The versions of each domain's database that a split asks about."""

SHARES: Mapping[str, range] = {
    "train": range(0, 2),
    "test": range(2, 3),
    "train_variants": range(3, 8),
    "val_variants": range(8, 9),
    "test_variants": range(9, 10),
}
"""The last decimal digits of queries' fingerprints that belong to each split."""

LIMITS = Limits(instructions=5_000_000, text=10_000, rows=10_000)


class BuiltIn:
    """The built-in questions."""

    splits = SPLITS

    def question(self, index: int) -> Question:
        return _question(index)

    def difficulty(self, index: int) -> str:
        return _kind(index)[0]

    def open(self, index: int) -> Sandbox:
        return Sandbox.of_image(_database(index).image, LIMITS)


@lru_cache(maxsize=8192)
def _question(index: int) -> Question:
    difficulty, domain = _kind(index)
    shares = SHARES[_split(index)]
    data = _database(index)
    draw = Draw(DOMAINS[domain], data, Random(f"{SEED}:{index}"))
    sandbox = Sandbox.of_image(data.image, LIMITS)
    try:
        while True:
            draft = draw.rng.choice(TEMPLATES[difficulty]).draft(draw)
            if _digit(draft.sql) in shares and _has_one_answer(draft, sandbox):
                return Question(DOMAINS[domain].name, draw.rng.choice(draft.texts), draft.sql, version=data.version)
    finally:
        sandbox.close()


def _has_one_answer(draft: Draft, sandbox: Sandbox) -> bool:
    """Whether the answer is neither nothing nor zero, as all who agree say, and not that of a wrong query."""

    def answer(query: str) -> set[Row]:
        return set(sandbox.run(query))

    gold = answer(draft.sql)
    return (
        gold not in (set(), {(0,)}, {(None,)})
        and all(answer(query) == gold for query in draft.agree)
        and all(answer(query) != gold for query in draft.differ)
    )


def _digit(query: str) -> int:
    return int(hashlib.sha256(query.encode()).hexdigest()[:12], 16) % 10


def _database(index: int) -> Database:
    return database(_kind(index)[1], Random(f"{SEED}:{index}:database").choice(VERSIONS[_split(index)]))


def _kind(index: int) -> tuple[str, int]:
    """Difficulty of a task and position of its domain."""
    turn, place = divmod(index - SPLITS[_split(index)].start, len(TEMPLATES))
    return list(TEMPLATES)[place], turn % len(DOMAINS)


def _split(index: int) -> str:
    for name, indices in SPLITS.items():
        if index in indices:
            return name
    if any(index in part for part in RANGES.values()):
        raise TaskNotFound(
            f"sqlgym_{index} is a question of BIRD: give the option data=<path of BIRD's folder, which holds train/ "
            f"and dev/>. Built-in tasks begin at {FIRST}"
        )
    raise TaskNotFound(f"sqlgym has no task {index}: valid are {FIRST} to {SPLITS['test_variants'][-1]}")
