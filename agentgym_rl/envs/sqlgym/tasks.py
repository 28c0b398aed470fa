"""The built-in questions about generated databases. Everything is a function of the task's index.

Indices below 20,000 are AgentGym's, which need BIRD. From there on the difficulties take turns, then the
domains. Each split has databases of its own, and the fingerprint of a query decides which split may ask for it.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from random import Random

from agentgym_rl.envs.splits import Splits, fingerprint
from agentgym_rl.envs.sqlgym.database import Database, database
from agentgym_rl.envs.sqlgym.domains import DOMAINS
from agentgym_rl.envs.sqlgym.question import Question
from agentgym_rl.envs.sqlgym.sandbox import Limits, Row, Sandbox
from agentgym_rl.envs.sqlgym.templates import TEMPLATES, Draft, Draw

SPLITS = Splits.read(__file__, "sqlgym")

SEED = "sqlgym 7"
"""With this seed no question occurs twice in ``train`` or ``test``."""

VERSIONS: Mapping[str, range] = {
    "train": range(0, 100),
    "test": range(100, 150),
    "train_variants": range(150, 350),
    "val_variants": range(350, 450),
    "test_variants": range(450, 550),
}
"""The versions of each domain's database that a split asks about."""

NAMES = tuple(domain.name for domain in DOMAINS)
"""Of all domains."""

LIMITS = Limits(instructions=5_000_000, text=10_000, rows=10_000, seconds=2)


class BuiltIn:
    """The built-in questions, or those about some domains.

    Args:
        domains: names; None for all.

    Raises:
        ValueError: one is unknown, or there is none.
    """

    limits = LIMITS

    def __init__(self, domains: Sequence[str] | None = None) -> None:
        self.splits: Mapping[str, Sequence[int]] = SPLITS if domains is None else _of_domains(domains)

    @staticmethod
    @lru_cache(maxsize=8192)
    def question(index: int) -> Question:
        split, _ = SPLITS.locate(index)
        difficulty, domain = _kind(index)
        data = _database(index)
        draw = Draw(DOMAINS[domain], data, Random(f"{SEED}:{index}"))
        with closing(Sandbox(data.image, LIMITS)) as sandbox:
            while True:
                draft = draw.rng.choice(TEMPLATES[difficulty]).draft(draw)
                if SPLITS.owns(split, fingerprint(draft.sql, 12)) and _has_one_answer(draft, sandbox):
                    return Question(DOMAINS[domain].name, draw.rng.choice(draft.texts), draft.sql, version=data.version)

    def difficulty(self, index: int) -> str:
        return _kind(index)[0]

    def source(self, index: int) -> bytes:
        return _database(index).image


def _of_domains(chosen: Sequence[str]) -> dict[str, tuple[int, ...]]:
    if unknown := [name for name in chosen if name not in NAMES]:
        raise ValueError(f"domain {unknown[0]!r} is unknown; choose among {', '.join(NAMES)}")
    if not chosen:
        raise ValueError(f"domains is empty; choose among {', '.join(NAMES)}")
    return {
        split: tuple(index for index in indices if NAMES[_kind(index)[1]] in chosen)
        for split, indices in SPLITS.items()
    }


def _has_one_answer(draft: Draft, sandbox: Sandbox) -> bool:
    """Whether the answer is neither empty nor zero, and all other queries of the draft agree or differ as they must."""

    def answer(query: str) -> set[Row]:
        return set(sandbox.run(query))

    gold = answer(draft.sql)
    return (
        gold not in (set(), {(0,)}, {(None,)})
        and all(answer(query) == gold for query in draft.agree)
        and all(answer(query) != gold for query in draft.differ)
    )


def _database(index: int) -> Database:
    split, _ = SPLITS.locate(index)
    return database(_kind(index)[1], Random(f"{SEED}:{index}:database").choice(VERSIONS[split]))


def _kind(index: int) -> tuple[str, int]:
    """Difficulty of a task and position of its domain."""
    turn, place = divmod(SPLITS.locate(index)[1], len(TEMPLATES))
    return list(TEMPLATES)[place], turn % len(DOMAINS)
