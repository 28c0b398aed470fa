"""Arms of a comparison: runs that differ in nothing but their seed, at one of their stages."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from agentgym_rl.eval.comparison.runs import Run, trained

BOOKKEEPING = (
    "name", "seed", "run.*", "logger.*", "engine.ray_address", "engine.start_seconds", "envs.*.panels.*",
)  # fmt: skip
"""Keys of where and how a run is kept and evaluated, not of what it learns; panels are compared by digest."""

ONLINE = ("algorithm.*", "curriculum.*", "mixture.*", "envs.*.share", "envs.*.curriculum*")
NOT_YET = {"untrained": (*ONLINE, "cloning.*"), "bc": ONLINE}
"""Keys without effect until a stage has ended."""
NAMINGS = ("short", "keys", "run")
"""What arms are called by: as few keys as tell them apart, all keys that differ, or runs, each an arm of its own."""
CHOICES = (".type", ".name")
"""Endings of keys that choose from a group of recipes."""
DRAWN = ("split", "difficulty", "n", "seed")
"""Keys of a panel that decide on its tasks."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Runs at a stage that differ in their seed only."""

    label: str
    stage: str
    """untrained, bc, control, or the algorithm."""
    config: Mapping[str, Any]
    """What the arm is: dotted keys, without seed and bookkeeping."""
    runs: tuple[Run, ...]
    """By seed; several of a seed where algorithms share a stage before they part."""

    @property
    def names(self) -> list[str]:
        """Names of its runs; those of several runs without their seeds."""
        if len(self.runs) == 1:
            return [self.runs[0].name]
        return list(dict.fromkeys(_without_seed(run, run.name) for run in self.runs))

    @property
    def ended(self) -> tuple[Run, ...]:
        """Runs that were evaluated at the end of the stage; all while none of them was."""
        return tuple(run for run in self.runs if run.stages[self.stage]["panels"]) or self.runs

    @property
    def seeds(self) -> list[int]:
        """Of runs that ended the stage."""
        return sorted({run.seed for run in self.ended})


def arms(runs: Sequence[Run], by: str = "short") -> list[Arm]:
    """The arms of some runs: untrained, bc, each algorithm, control.

    Args:
        by: one of :data:`NAMINGS`.

    Raises:
        ValueError: there is no such naming, two runs are the same but for their name and not compared by name, or a
            panel of theirs has different tasks.
    """
    if by not in NAMINGS:
        raise ValueError(f"arms {by!r} is unknown; choose {', '.join(NAMINGS[:-1])} or {NAMINGS[-1]}")
    if not runs:
        raise ValueError("no runs to compare")
    _check_panels(runs)
    if by == "run":
        return _each_run(runs)
    _check_seeds(runs)
    grouped: dict[tuple[str, str], list[Run]] = {}
    facts: dict[tuple[str, str], dict[str, Any]] = {}
    for run in runs:
        for stage in run.stages:
            settings = identity(run, NOT_YET.get(stage, ()))
            key = (stage, json.dumps(settings, sort_keys=True))
            facts[key] = settings
            grouped.setdefault(key, []).append(run)
    named: dict[tuple[str, str], str] = {}
    for stage in sorted({stage for stage, _ in grouped}, key=_rank):
        keys = [key for key in grouped if key[0] == stage]
        of = {config: label for (_, config), label in named.items()}
        if stage == "control" and len(keys) > 1 and all(config in of for _, config in keys):
            endings = [f"of {of[config]}" for _, config in keys]
        else:
            endings = labels([facts[key] for key in keys], all_keys=by == "keys")
        named |= {key: f"{stage} {ending}".strip() for key, ending in zip(keys, endings, strict=True)}
    return [
        Arm(label, key[0], facts[key], tuple(sorted(grouped[key], key=lambda run: (run.seed, run.name))))
        for key, label in named.items()
    ]


def identity(run: Run, unused: Sequence[str] = ()) -> dict[str, Any]:
    """What a run is: its configuration without bookkeeping and without keys like ``unused``.

    A seed inside a text (``model.path=runs/first-seed3``) is masked, so that it does not separate the seeds of an arm.
    """
    return {
        key: _without_seed(run, value) if isinstance(value, str) else value
        for key, value in run.config.items()
        if not any(fnmatchcase(key, pattern) for pattern in (*BOOKKEEPING, *unused))
    }


def _without_seed(run: Run, text: str) -> str:
    """``demo-grpo-seed*`` of ``demo-grpo-seed3``."""
    return re.sub(rf"(?<=seed){run.seed}(?!\d)", "*", text)


def labels(configs: Sequence[Mapping[str, Any]], all_keys: bool = False) -> list[str]:
    """Short texts that tell configurations apart; empty for a single configuration.

    Args:
        all_keys: by all keys that differ, instead of as few as possible.
    """
    if len(configs) == 1:
        return [""]
    rows = [{"envs": "+".join(trained(config)), **config} for config in configs]
    chosen: list[str] = []
    told_apart = 1
    candidates = sorted(
        differing(rows), key=lambda key: (key != "envs", not key.endswith(CHOICES), key.count("."), key)
    )
    alone = [key for key in candidates if _distinct(rows, [key]) == len(rows)]
    for key in alone[:1] or candidates:
        if not all_keys and _distinct(rows, [*chosen, key]) > told_apart:
            chosen.append(key)
            told_apart = _distinct(rows, chosen)
    if all_keys:
        chosen = [key for key in candidates if key != "envs"]
    return [" ".join(f"{_called(key)}={shown(row[key])}" for key in chosen if key in row) for row in rows]


def _called(key: str) -> str:
    """``mixture`` of ``mixture.type``."""
    return re.sub(r"[.](type|name)$", "", key)


def unnamed(all_arms: Sequence[Arm]) -> list[str]:
    """Keys that all arms of a stage have, with different values, and that their labels leave out.

    A label that says ``mixture=dynamic`` says all of the mixture.
    """
    left_out: set[str] = set()
    for stage in {arm.stage for arm in all_arms}:
        of_stage = [arm for arm in all_arms if arm.stage == stage]
        labelled = {word.partition("=")[0] for arm in of_stage for word in arm.label.split()}
        for key in differing([arm.config for arm in of_stage]):
            parts = key.split(".")
            said = {".".join(parts[:end]) for end in range(1, len(parts) + 1)} & labelled
            if not said and all(key in arm.config for arm in of_stage):
                left_out.add(key)
    return sorted(left_out)


def differing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Keys that not all configurations have with the same value."""
    keys = {key: None for config in configs for key in config}
    return [key for key in keys if _distinct(configs, [key]) > 1]


def _each_run(runs: Sequence[Run]) -> list[Arm]:
    """An arm for each run at each of its stages, called by the run's name and, before the last, the stage."""
    names = [run.name for run in runs]
    called = [str(run.folder) if names.count(run.name) > 1 else run.name for run in runs]
    by_run = [
        Arm(name if stage == run.algorithm else f"{name}: {stage}", stage, identity(run), (run,))
        for run, name in zip(runs, called, strict=True)
        for stage in run.stages
    ]
    return sorted(by_run, key=lambda arm: _rank(arm.stage)[0])


def _check_seeds(runs: Sequence[Run]) -> None:
    seen: dict[tuple[str, int], Run] = {}
    for run in runs:
        key = (json.dumps(identity(run), sort_keys=True), run.seed)
        if key in seen:
            raise ValueError(
                f"{seen[key].folder} and {run.folder} are the same arm and seed ({run.algorithm}, seed {run.seed}); "
                "leave one out, or compare run by run with --arms run"
            )
        seen[key] = run


def _check_panels(runs: Sequence[Run]) -> None:
    """By digest; where an unfinished run does not say it, by how the panels are drawn."""
    digests: dict[tuple[str, str], tuple[str, Run]] = {}
    firsts: dict[tuple[str, str], Run] = {}
    for run in runs:
        for panel, digest in run.digests.items():
            first = firsts.setdefault(panel, run)
            if not digest or not first.digests[panel]:
                _check_same(panel, first, run, _drawn(first, panel), _drawn(run, panel))
            if digest:
                known, first = digests.setdefault(panel, (digest, run))
                _check_same(panel, first, run, known, digest, "digests ")


def _drawn(run: Run, panel: tuple[str, str]) -> str:
    env, label = panel
    return " ".join(f"{key}={shown(run.config.get(f'envs.{env}.panels.{label}.{key}'))}" for key in DRAWN)


def _check_same(panel: tuple[str, str], first: Run, run: Run, tasks: str, others: str, what: str = "") -> None:
    if tasks != others:
        env, label = panel
        raise ValueError(
            f"{first.folder} and {run.folder} differ in the tasks of panel {label} of {env} "
            f"({what}{tasks} and {others}); runs that are compared need the same panels"
        )


def _rank(stage: str) -> tuple[int, str]:
    ranks = {"untrained": 0, "bc": 1, "control": 3}
    return ranks.get(stage, 2), stage


def _distinct(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> int:
    return len({tuple(json.dumps(row[key]) if key in row else None for key in keys) for row in rows})


def shown(value: Any) -> str:
    """A setting in words."""
    return value if isinstance(value, str) else json.dumps(value)
