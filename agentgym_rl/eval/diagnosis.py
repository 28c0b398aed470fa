"""Whether a run is dead: rules over its metrics, each with the cause and the remedy.

A rule looks at the last two units of a stage that have its metrics, and finds something only if both show it. What it
finds goes to the terminal, ``summary.json``, ``agentgym-rl watch``, the viewer and W&B's alerts;
``docs/stability.md`` lists the rules.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from agentgym_rl.envs.tables import load
from agentgym_rl.eval.units import Row, by_env, by_stage

STEPS = 2
"""Units that must show it."""
NEARLY_ALL = 0.95
"""Share of responses or episodes from which on a run counts as having no others."""
ADVANTAGE = 1e-3
"""Mean absolute advantage of a token below which nothing is learned. One task of 250 with a gradient is above it."""
ENTROPY = 0.005
"""Nats a token below which the samples of a task are alike: 200 tokens then differ by one nat."""
RATIO = 3.0
"""Factor between the probabilities of a token in learning and in sampling that is far from 1 for a hundredth of the
tokens; ``algorithm.loss.dual_clip`` counts no greater one unless it is set."""
AT_FLOOR = 1.05
"""Share of an environment, as a multiple of the least one, up to which it is at its floor."""
SOLVED = 0.9
"""Success from which on an environment rightly has the least share."""
KEPT = ("agentevol/kept", "dpo/pairs")
"""Metrics that count what an algorithm learns from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Why a stage learns nothing, and what to do."""

    stage: str
    rule: str
    cause: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.stage} is not learning: {self.cause}; {self.remedy}"


Said = tuple[str, ...]
"""Name of a text, and the words that its cause takes."""
Rule = Callable[[Sequence[Row]], Said | None]
"""What the units of a stage show."""


@dataclass(frozen=True, slots=True)
class Text:
    """An entry of ``diagnosis.toml``."""

    cause: str
    remedy: str


TEXTS = load(Path(__file__).with_suffix(".toml"), dict[str, Text])


def diagnose(rows: Iterable[Row]) -> list[Finding]:
    """What the last units of each stage show, from the rows of ``metrics.jsonl``."""
    return [
        Finding(stage=stage, rule=name, cause=TEXTS[why[0]].cause.format(*why[1:]), remedy=TEXTS[why[0]].remedy)
        for stage, units in by_stage(rows).items()
        for name, rule in RULES.items()
        if (why := rule(units)) is not None
    ]


# the rules


def no_gradient(units: Sequence[Row]) -> Said | None:
    """No group with a gradient: nothing to learn from, or one and the same reward everywhere."""
    last = _last(units, lambda row: _learns(row) is not None)
    rewards, success = (
        {value for row in last for value in by_env(row, name).values()} for name in ("reward", "success")
    )
    alike = len(rewards) == 1 and success in ({0}, {1}) and not any(map(_uneven_groups, last))
    if not last or (any(map(_learns, last)) and not alike):
        return None
    if success == {1}:
        return ("successes",)
    return ("failures",) if success == {0} else ("equal",)


def invalid(units: Sequence[Row]) -> Said | None:
    """All responses are invalid."""
    names = _environments(units, "invalid_turns", lambda share: share >= NEARLY_ALL)
    return None if names is None else ("invalid", names)


def entropy(units: Sequence[Row]) -> Said | None:
    """The entropy has collapsed."""
    last = _last(units, lambda row: "actor/entropy" in row)
    if not last or not all(row["actor/entropy"] < ENTROPY for row in last):
        return None
    return "entropy", f"{last[-1]['actor/entropy']:.2g}"


def ratio(units: Sequence[Row]) -> Said | None:
    """Probabilities in learning are far from those in sampling."""
    last = _last(units, lambda row: "diagnostics/ratio_low" in row)
    apart = [max(row["diagnostics/ratio_high"], 1 / max(row["diagnostics/ratio_low"], 1e-9)) for row in last]
    if not apart or not all(factor >= RATIO for factor in apart):
        return None
    return "ratio", f"{apart[-1]:.2g}"


def context(units: Sequence[Row]) -> Said | None:
    """Everything is cut at the context limit."""
    names = _environments(units, "context_share", lambda share: share >= NEARLY_ALL)
    return None if names is None else ("context", names)


def floor(units: Sequence[Row]) -> Said | None:
    """A mixture's share is at its floor, and too small for the environment to have episodes."""
    last = _last(units, lambda row: "mixture/floor" in row)
    starved = [{env: share for env, share in by_env(row, "share").items() if _starves(row, env, share)} for row in last]
    envs = [env for env in starved[-1] if all(env in name for name in starved)] if starved else []
    if not envs:
        return None
    return "floor", f"{last[-1]['mixture/floor']:.2g}", ", ".join(envs), str(STEPS)


def not_finite(units: Sequence[Row]) -> Said | None:
    """The gradient is infinite or not a number."""
    last = _last(units, lambda row: bool(_gradients(row)))
    if not last or any(isfinite(value) for row in last for value in _gradients(row)):
        return None
    return ("not_finite",)


RULES: dict[str, Rule] = {
    "no gradient": no_gradient,
    "invalid responses": invalid,
    "entropy": entropy,
    "ratio": ratio,
    "context limit": context,
    "mixture": floor,
    "gradient": not_finite,
}


# what they read


def _last(units: Sequence[Row], tells: Callable[[Row], bool]) -> list[Row]:
    """The last units that tell something, or none where there are too few."""
    rows: list[Row] = []
    for row in reversed(units):
        if tells(row):
            rows.insert(0, row)
        if len(rows) == STEPS:
            return rows
    return []


def _environments(units: Sequence[Row], name: str, holds: Callable[[float], bool]) -> str | None:
    """The environments whose metric holds in the last units that have it, with its last value in percent."""
    envs = sorted({env for row in units for env in by_env(row, name)})
    names = []
    for env in envs:
        key = f"env/{env}/{name}"
        last = _last(units, lambda row, key=key: key in row)  # type: ignore[misc]
        if last and all(holds(row[key]) for row in last):
            names.append(f"{env} {100 * last[-1][key]:.0f}%")
    return ", ".join(names) or None


def _learns(row: Row) -> bool | None:
    """Whether a unit had something to learn from; None where its metrics do not say."""
    if counts := [row[name] for name in KEPT if name in row]:
        return any(counts)
    if _uneven_groups(row):
        return True
    if sizes := [value for name, value in row.items() if name.startswith("diagnostics/advantage_")]:
        return not all(size < ADVANTAGE for size in sizes)
    return False if "batch/filtered_groups" in row else None


def _uneven_groups(row: Row) -> bool:
    """Whether rewards differ within a group that is learned from."""
    return bool(row.get("diagnostics/gradient_share", row.get("rollout/gradient_groups", 0)))


def _starves(row: Row, env: str, share: float) -> bool:
    """Whether an environment that is not solved has the least share and no episode that counts."""
    unsolved = row.get(f"env/{env}/estimate", 0.0) < SOLVED
    return share <= AT_FLOOR * row["mixture/floor"] and f"env/{env}/success" not in row and unsolved


def _gradients(row: Row) -> list[float]:
    return [row[name] for name in ("actor/grad_norm", "supervised/grad_norm") if name in row]
