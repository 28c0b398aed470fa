"""The orderings of the published tables at tiny scale, on the real engine: which arm is better, with intervals.

Every arm starts from the same cloned weights of its seed (``recipes/experiment/ablation.yaml``: three worlds, a tiny
model) and plays 960 training episodes; panels are 100 tasks a world that no choice of settings has seen. What the raw
results hold with the same settings is not run again, and an interrupted run goes on: stop and repeat it as you like.

    python benchmarks/evidence.py                    # all arms, seeds 0-4; hours on two cores
    python benchmarks/evidence.py --seeds 0 --arms bc evol grpo
    python benchmarks/evidence.py --page             # only write docs/evidence.md from benchmarks/evidence.json

The raw results go to ``benchmarks/evidence.json``, the tables into the marked blocks of ``docs/evidence.md``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console

from agentgym_rl.data.files import write_text
from agentgym_rl.engine.config import Config
from agentgym_rl.engine.recipes import load
from agentgym_rl.engine.run_folder import Interrupted
from agentgym_rl.engine.session import Session
from agentgym_rl.engine.train import train
from agentgym_rl.eval.intervals import sign_flip_p, student

HERE = Path(__file__).resolve().parent
RAW, PAGE = HERE / "evidence.json", HERE.parent / "docs" / "evidence.md"
WORLDS = {"textcraft": 48, "babyai": 48, "maze": 16}
"""Expert trajectories of each in the recipe."""
EXPLORED = 480
"""Tasks a round of AgentEvol in the recipe."""


def alone(world: str) -> list[str]:
    """As many rounds and episodes of a single world as the joint run gives it."""
    idle = [f"worlds.{other}.share=0" for other in WORLDS if other != world]
    return [*idle, f"algorithm.tasks={EXPLORED // len(WORLDS)}"]


ARMS: dict[str, list[str]] = {
    "bc": ["algorithm=bc"],
    "bc_large": ["algorithm=bc", "bc.epochs=25", *(f"worlds.{world}.experts={2 * n}" for world, n in WORLDS.items())],
    "evol": ["algorithm=agentevol", "run.control=true"],
    "evol_dynamic": ["algorithm=agentevol", "mixture=dynamic"],
    **{f"evol_{world}": ["algorithm=agentevol", *alone(world)] for world in WORLDS},
    "grpo": ["algorithm=grpo", "run.control=true"],
    "rloo": ["algorithm=rloo"],
    "reinforce_pp": ["algorithm=reinforce_pp"],
    "gigpo": ["algorithm=gigpo"],
    "dpo": ["algorithm=dpo"],
    "ppo": ["algorithm=ppo"],
    "ppo_turn": ["algorithm=ppo", "algorithm.level=turn"],
}
"""Overrides of the recipe. A control is a stage of its arm: as many updates on expert data alone."""

SINGLE = {world: f"evol_{world}" for world in WORLDS}
Side = str | Mapping[str, str]
"""An arm, ``arm/control``, or an arm for each world."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """One claim: ``better`` has more success than ``worse``."""

    claim: str
    better: Side
    worse: Side


RL = ("grpo", "rloo", "reinforce_pp", "gigpo", "dpo", "ppo", "ppo_turn")
ORDERINGS: dict[str, list[Ordering]] = {
    "evolution": [
        Ordering("AgentEvol > BC", "evol", "bc"),
        Ordering("AgentEvol > its control", "evol", "evol/control"),
        Ordering("BC on twice the experts > BC", "bc_large", "bc"),
        Ordering("AgentEvol > BC on twice the experts", "evol", "bc_large"),
    ],
    "worlds": [Ordering("all worlds together > each alone", "evol", SINGLE)],
    "mixture": [Ordering("dynamic > uniform", "evol_dynamic", "evol")],
    "rl": [
        *(Ordering(f"{arm} > BC", arm, "bc") for arm in RL),
        *(Ordering(f"{arm} > GRPO's control", arm, "grpo/control") for arm in RL),
        Ordering("AgentEvol > GRPO", "evol", "grpo"),
    ],
}


# runs


def run(seeds: Sequence[int], chosen: Sequence[str], folder: Path, console: Console) -> None:
    """Run what is not finished, seed after seed, arms of a seed on one engine where they can share it."""
    known = {(row["arm"], row["seed"]): row["settings"] for row in results()}
    todo = [
        (arm, seed, config)
        for seed in seeds
        for arm, config in ((arm, composed(arm, seed, folder)) for arm in chosen)
        if known.get((arm, seed)) != settings(config)
    ]
    begun = time.monotonic()
    for seed in seeds:
        with Session(several=True) as session:
            for number, (arm, own, config) in enumerate(todo):
                if own != seed:
                    continue
                rest = (time.monotonic() - begun) / max(1, number) * (len(todo) - number) / 60
                left = f", about {rest:.0f} min left" if number else ""
                console.rule(f"{number + 1}/{len(todo)}: {arm}, seed {seed}{left}", align="left")
                place = train(config, console, session)
                record(arm, seed, settings(config), json.loads((place / "summary.json").read_text()))


def composed(arm: str, seed: int, folder: Path) -> Config:
    """The run of an arm."""
    place = [f"name=evidence-{arm}-seed{seed}", f"run.dir={folder}/{arm}-seed{seed}", f"run.cache={folder}/cloned"]
    return load(["experiment=ablation", *ARMS[arm], f"seed={seed}", *place])


def settings(config: Config) -> str:
    """First 12 hex digits over every value that is not its field's default, but for where a run is kept."""
    bare = replace(config, run=replace(config.run, dir="", cache=None))
    return hashlib.sha256(json.dumps(chosen(bare), sort_keys=True).encode()).hexdigest()[:12]


def chosen(value: Any) -> Any:
    """A configuration without its defaults, so that a field added later does not make these results another's."""
    if is_dataclass(value):
        return {
            field.name: chosen(own)
            for field in fields(value)
            if (own := getattr(value, field.name)) != field.default
            and (field.default_factory is MISSING or own != field.default_factory())
        }
    return {key: chosen(own) for key, own in value.items()} if isinstance(value, dict) else value


def record(arm: str, seed: int, digest: str, summary: dict[str, Any]) -> None:
    """Add a finished run to the raw results."""
    stages = {stage["name"]: stage for stage in summary["stages"]}
    final = stages[summary["algorithm"]]
    entry = {
        "arm": arm,
        "seed": seed,
        "success": _success(final),
        "control": _success(stages["control"]) if "control" in stages else None,
        "episodes": final["episodes"],
        "minutes": round(final["wall_s"] / 60, 2),
        "settings": digest,
        "panels": summary["panels"],
        "versions": {key: summary["versions"][key] for key in ("agentgym-rl", "verl", "torch")},
    }
    rows = [row for row in results() if (row["arm"], row["seed"]) != (arm, seed)]
    rows = sorted([*rows, entry], key=lambda row: (row["seed"], list(ARMS).index(row["arm"])))
    write_text(RAW, "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def _success(stage: dict[str, Any]) -> dict[str, list[float]]:
    """World by world: success and number of episodes."""
    panels = stage["panels"]["new_variants"]
    return {world: [panels[world]["sampled"]["success"], panels[world]["sampled"]["n"]] for world in WORLDS}


def results() -> list[dict[str, Any]]:
    """The raw results so far."""
    return json.loads(RAW.read_text()) if RAW.is_file() else []


# page


def values(rows: Sequence[dict[str, Any]], side: Side, world: str) -> dict[int, float]:
    """Success in percent by seed."""
    arm, _, stage = (side if isinstance(side, str) else side[world]).partition("/")
    key = "control" if stage else "success"
    return {row["seed"]: 100 * row[key][world][0] for row in rows if row["arm"] == arm and row[key] is not None}


def averages(rows: Sequence[dict[str, Any]], side: Side) -> dict[int, float]:
    """Mean over worlds by seed."""
    by_world = [values(rows, side, world) for world in WORLDS]
    return {seed: mean(found[seed] for found in by_world) for seed in by_world[0] if all(seed in f for f in by_world)}


def paired(better: Mapping[int, float], worse: Mapping[int, float]) -> list[float]:
    return [better[seed] - worse[seed] for seed in sorted(better.keys() & worse.keys())]


def cell(found: Sequence[float], signed: bool = False) -> str:
    """Mean and 95% interval over seeds."""
    if not found:
        return ""
    form = "{:+.1f}" if signed else "{:.1f}"
    text = form.format(mean(found))
    if len(found) > 1:
        low, high = student(found)
        text += f" [{form.format(low)}, {form.format(high)}]"
    return text


def verdict(differences: Sequence[float]) -> str:
    """What the paired 95% interval of the average says."""
    if len(differences) < 3:
        return "too few seeds"
    low, high = student(differences)
    return "holds" if low > 0 else "reversed" if high < 0 else "not shown"


def arms_table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Success of every arm."""
    yield f"| arm | seeds | {' | '.join(WORLDS)} | average | episodes | minutes |"
    yield f"|---|---|{'---|' * len(WORLDS)}---|---|---|"
    sides = [side for arm in ARMS for side in (arm, f"{arm}/control")]
    for side in sides:
        found = averages(rows, side)
        if not found:
            continue
        cells = [cell(list(values(rows, side, world).values())) for world in WORLDS]
        arm, _, control = side.partition("/")
        own = [row for row in rows if row["arm"] == arm]
        episodes = "" if control else f"{mean(row['episodes'] for row in own):.0f}"
        minutes = "" if control else f"{mean(row['minutes'] for row in own):.1f}"
        yield f"| {side} | {len(found)} | {' | '.join(cells)} | {cell(list(found.values()))} | {episodes} | {minutes} |"


def orderings_table(rows: Sequence[dict[str, Any]], orderings: Sequence[Ordering]) -> Iterator[str]:
    """Paired differences in percentage points."""
    yield f"| claim | {' | '.join(WORLDS)} | average | seeds in favour | p | verdict |"
    yield f"|---|{'---|' * len(WORLDS)}---|---|---|---|"
    for one in orderings:
        found = paired(averages(rows, one.better), averages(rows, one.worse))
        if not found:
            continue
        cells = [
            cell(paired(values(rows, one.better, world), values(rows, one.worse, world)), signed=True)
            for world in WORLDS
        ]
        p = sign_flip_p(found)
        wins = f"{sum(value > 0 for value in found)} of {len(found)}"
        yield (
            f"| {one.claim} | {' | '.join(cells)} | {cell(found, signed=True)} | {wins} | "
            f"{'' if p is None else f'{p:.3f}'} | {verdict(found)} |"
        )


def page(text: str, rows: Sequence[dict[str, Any]]) -> str:
    """The page with its tables renewed; what stands around them is kept."""
    tables = {"arms": arms_table(rows)} | {name: orderings_table(rows, found) for name, found in ORDERINGS.items()}
    for name, lines in tables.items():
        block = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not block.search(text):
            raise ValueError(f"{PAGE} has no block '<!-- table {name} -->'")
        shown = "\n".join(lines) if rows else "No results yet."
        text = block.sub(lambda found, shown=shown: f"{found[1]}{shown}\n{found[2]}", text)  # type: ignore[misc]
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS), metavar="ARM")
    parser.add_argument("--folder", type=Path, default=Path("runs/evidence"))
    parser.add_argument("--page", action="store_true", help="only write the page from the raw results")
    options = parser.parse_args()
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 130)
    try:
        if not options.page:
            run(options.seeds, options.arms, options.folder, console)
    except (Interrupted, KeyboardInterrupt):
        console.print("stopped; the same command goes on")
        raise SystemExit(130) from None
    write_text(PAGE, page(PAGE.read_text(), results()))
    console.print(f"raw results: {RAW}\npage: {PAGE}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
