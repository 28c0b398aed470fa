"""Studies at tiny scale, on the real engine: which arm is better, with intervals.

``demo``         what ``make demo`` trains, and a control of GRPO
``algorithms``   the orderings of the published tables: three environments, every algorithm plays 960 episodes
``pieces``       AgentEvol without its filter, restart, accumulation, dynamic shares, search or hindsight, one at a time
``credit``       GRPO, GiGPO, HGPO, GraphGPO, PACE and iStar on mazes and TextCraft, as many episodes and updates each
``curriculum``   few turns, many, or first few and then many, in an environment with long tasks
``mixture``      equal shares, shares that follow what there is to learn, and shares of one who knows it beforehand
``transfer``     trained in one environment, tested in four; all together, or one after the other
``starts``       groups that begin at the task, in the middle of own episodes, or of demonstrations
``distillation``   SmolLM2-135M learns from a clone of more demonstrations, from itself with a plan to read, or by GRPO
``early_experience``   cloning and early experience, as many updates, and GRPO after each
``hindsight``    AgentEvol, also with failed episodes under the goals that they reached, and with twice the passes
``frontier``     settings of mazes that follow the agent, or equal and dynamic shares, on a family that is held out
``curation``     groups as they are, or with successes of a pool, limits by task and a selection of turns
``pretrained``   SmolLM2-135M on goals that no training task shares: cloning, AgentEvol with its control, and GRPO
``pretrained_curriculum``   as ``curriculum``, with SmolLM2-135M

Every arm of a study starts from the same cloned weights of its seed. Another kind of processor clones others: run all
arms of a seed on one machine. No choice of settings has seen the panels' tasks.
What a study is to show, with which seeds and panels, is in ``benchmarks/claims.yaml``, written before its runs;
no other claim gets a verdict, nor any before all seeds of its design are there.

What the raw results hold with the same settings is not run again, and an interrupted run goes on: stop and repeat it
as you like. Rows of older code stand, marked as stale, until they are asked for, or confirmed: where the present code
gives one seed of an arm the same numbers to the bit, the rows that the same older code made of that arm are not stale.
Of a tiny model, two runs side by side, each on a core (``taskset``), do more than one on two: give each other seeds.

    python benchmarks/evidence.py algorithms                    # all arms and seeds of the design; hours on two cores
    python benchmarks/evidence.py curriculum --seeds 20 --arms bc short
    taskset -c 0 python benchmarks/evidence.py credit --seeds 20 21 22 23   # and -c 1 with the other seeds
    python benchmarks/evidence.py pretrained --engine one_gpu   # on a GPU; rows and the page say so
    python benchmarks/evidence.py credit --plan                 # what is left to run, and about how long it takes
    python benchmarks/evidence.py algorithms --power            # power of its claims by seeds, from the rows there are
    python benchmarks/evidence.py algorithms --page             # only write the page from the raw results
    python benchmarks/evidence.py algorithms --stale            # list rows of older code
    python benchmarks/evidence.py algorithms --confirm          # run one seed of every arm again, and compare
    python benchmarks/evidence.py algorithms --renew --arms bc  # run these again, of the arms and seeds that are named

Raw results and pages are those that ``benchmarks/studies.py`` names: JSON in ``benchmarks``, tables in marked blocks of
pages in ``docs``, with pictures in ``docs/images``. The claims of all designs that do not hold are printed.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from statistics import mean
from typing import Any

from claims import DESIGNS
from evidence_page import OVERVIEW, notes, page, pictures
from power import table as power_table
from rich.console import Console
from settings_digest import digest as settings
from staleness import confirmed, differing, last_code, why
from studies import STUDIES, Follows, Study

from agentgym_rl.algorithms.bc import Cloning
from agentgym_rl.data.files import read_jsonl, write_text
from agentgym_rl.engine.recipe.checkpoint import find
from agentgym_rl.engine.recipe.compose import load
from agentgym_rl.engine.recipe.config import Config, ModelConfig, PanelConfig, PretrainedModelConfig, Role
from agentgym_rl.engine.recipe.digest import code_of, digest
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run.export import export
from agentgym_rl.engine.run.folder import Interrupted
from agentgym_rl.engine.run.session import Session
from agentgym_rl.engine.run.train import train

Todo = Sequence[tuple[str, int, Config]]
"""Arm, seed and configuration of runs."""


def run(
    study: Study, todo: Todo, folder: Path, console: Console, engine: str | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of runs, seed after seed, arms of a seed on one engine where they can share it.

    Args:
        engine: a recipe of ``recipes/engine`` in the place of the study's.
    """
    begun = time.monotonic()
    for seed in dict.fromkeys(seed for _, seed, _ in todo):
        with Session(several=True) as session:
            for number, (arm, of_seed, config) in enumerate(todo):
                if of_seed != seed:
                    continue
                rest = (time.monotonic() - begun) / max(1, number) * (len(todo) - number) / 60
                remaining = f", about {rest:.0f} min left" if number else ""
                console.rule(f"{number + 1}/{len(todo)}: {arm}, seed {seed}{remaining}", align="left")
                begin(study, arm, seed, folder, console, session, engine)
                chosen = composed(study, arm, seed, folder, engine)
                yield row_of(study, arm, seed, settings(config), train(Resolved(chosen), console, session), engine)


def begin(
    study: Study, arm: str, seed: int, folder: Path, console: Console, session: Session, engine: str | None = None
) -> None:
    """Train the arms that one begins with or is taught by, where they are not finished; export what it begins with."""
    if teacher := study.taught.get(arm):
        train(Resolved(composed(study, teacher, seed, folder, engine)), console, session)
    if before := study.after.get(arm):
        weights = Path(composed(study, arm, seed, folder).model.path)
        if not weights.is_dir():
            place = train(Resolved(composed(study, before, seed, folder, engine)), console, session)
            export(find(str(place)), weights)


def check_engine(study: Study, seeds: Sequence[int], engine: str | None) -> None:
    """Before runs whose seeds may stand in the raw results, made with another engine.

    Raises:
        ValueError: such a seed would be compared with itself on another engine, from other cloned weights; or no
            recipe has the engine's name.
    """
    if engine:
        load([f"experiment={study.recipe}", f"engine={engine}"])
    for row in results(study):
        if row["seed"] in seeds and (other := row.get("engine")) != engine:
            raise ValueError(
                f"{row['arm']}, seed {row['seed']} was made with {f'--engine {other}' if other else 'no --engine'}: "
                f"choose the same, or other --seeds, or delete the seed's rows from {study.raw}"
            )


class OtherClone(Exception):
    """A run began with other weights than those that it is compared with."""


def check_clone(study: Study, row: dict[str, Any], rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """Before a row is among others: arms of a seed that clone alike begin with the same weights.

    Raises:
        OtherClone: one of them began with others, such as those that another kind of processor cloned.
    """
    for other in (other for other in rows if other["seed"] == row["seed"] and "cloned" in other):
        if other["cloned"] == row.get("cloned") or why(other):
            continue
        ours, theirs = (
            composed(study, arm, row["seed"], folder, row.get("engine")) for arm in (row["arm"], other["arm"])
        )
        recorded = settings(composed(study, other["arm"], row["seed"], folder))  # rows' settings are without an engine
        if digest(ours, cloned=True) == digest(theirs, cloned=True) and recorded == other["settings"]:
            raise OtherClone(
                f"seed {row['seed']}: {row['arm']} began with other cloned weights than {other['arm']}; did another "
                f"machine run it? Delete the seed's rows from {study.raw}: the study then runs them here"
            )


def missing(study: Study, seeds: Sequence[int], arms: Sequence[str], folder: Path, renew: bool) -> Todo:
    """What the raw results lack, or have of other settings, and with ``renew`` what older code has finished."""
    known = {(row["arm"], row["seed"]): row["settings"] for row in results(study) if not (renew and why(row))}
    asked = dict.fromkeys((arm, seed) for seed in seeds for arm in arms)
    candidates = ((arm, seed, composed(study, arm, seed, folder)) for arm, seed in asked)
    return [(arm, seed, config) for arm, seed, config in candidates if known.get((arm, seed)) != settings(config)]


def unconfirmed(study: Study, seeds: Sequence[int], arms: Sequence[str], folder: Path, engine: str | None) -> Todo:
    """The first stale row of each arm and code, of these seeds and this engine."""
    rows = [
        row for row in results(study) if row["arm"] in arms and row["seed"] in seeds and row.get("engine") == engine
    ]
    stale = [row for row in rows if why(row) and "code" in row]
    first = {(last_code(row), row["arm"]): (row["arm"], row["seed"]) for row in reversed(stale)}
    order = list(study.arms)  # cloning first: the others begin with its weights
    chosen = sorted(first.values(), key=lambda row: (row[1], order.index(row[0])))
    return [(arm, seed, composed(study, arm, seed, folder)) for arm, seed in chosen]


def plan(name: str, todo: Todo, engine: str | None = None) -> Iterator[str]:
    """Runs of each arm and about how long they take, by the rows of this study, or of older ones, and of other arms.

    Launches, evaluations, controls and the cloning of each seed's first run are beside that.
    """
    rows = results(STUDIES[name]) or results(STUDIES[DESIGNS[name].rows])
    rows = [row for row in rows if row.get("engine") == engine]
    known = {arm: [row["minutes"] for row in rows if row["arm"] == arm] for arm in STUDIES[name].arms}
    playing = [row["minutes"] for row in rows if row["episodes"]]
    total = 0.0
    for arm, runs in Counter(arm for arm, _, _ in todo).items():
        each = mean(known[arm] or playing or [0.0])
        total += runs * each
        guess = "" if known[arm] else " as other arms take" if playing else ": no run is known"
        yield f"{arm}: {runs} runs of {each:.1f} min{guess}"
    yield f"{len(todo)} runs, about {total / 60:.1f} hours"


def composed(study: Study, arm: str, seed: int, folder: Path, engine: str | None = None) -> Config:
    """The run of an arm; other code finds neither it nor its cloned weights."""
    name = f"{study.prefix}-{arm}-seed{seed}"
    design = next(DESIGNS[key] for key, other in STUDIES.items() if other is study)
    panels = design.overrides(study, seed)
    chosen = [f"engine={engine}"] if engine else []
    config = load([f"experiment={study.recipe}", *chosen, *study.arms[arm], *panels, f"seed={seed}", f"name={name}"])
    if study.follows and seed in design.seeds:
        config = followed(study, study.follows, arm, config)
    place = folder / code_of(config)
    if teacher := study.taught.get(arm):
        run = f"{place}/{study.prefix}-{teacher}-seed{seed}"
        config = replace(config, algorithm=replace(config.algorithm, teacher=run))
    if before := study.after.get(arm):
        weights = f"{place}/{study.prefix}-{before}-seed{seed}-weights"
        kept = {setting.name: getattr(config.model, setting.name) for setting in fields(ModelConfig)}
        config = replace(config, model=PretrainedModelConfig(**kept | {"path": weights}))
    return replace(config, run=replace(config.run, dir=f"{place}/{name}", cache=f"{place}/cloned"))


def followed(study: Study, follows: Follows, arm: str, config: Config) -> Config:
    """A run with the panels that the study's learning curves are of."""
    label, *_ = study.watched
    envs = {}
    for name, env in config.envs.items():
        panel = PanelConfig(split="val_variants", difficulty=env.difficulty, n=follows.n, role=Role.VALIDATION)
        envs[name] = replace(env, panels={**env.panels, label: panel})
    return replace(config, envs=envs, run=replace(config.run, eval_every=follows.every.get(arm, 0)))


def row_of(
    study: Study, arm: str, seed: int, of_settings: str, place: Path, engine: str | None = None
) -> dict[str, Any]:
    """What the raw results have of a finished run; ``cloned`` is the loss of the last pass of cloning."""
    summary = json.loads((place / "summary.json").read_text())
    stages = {stage["name"]: stage for stage in summary["stages"]}
    final = stages[summary["algorithm"]]
    entry = {
        "arm": arm,
        "seed": seed,
        "success": _success(study, final),
        "control": _success(study, stages["control"]) if "control" in stages else None,
        "episodes": final["episodes"],
        "minutes": round(final["wall_s"] / 60, 2),
        "gradient_groups": gradient_groups(place),
        "settings": of_settings,
        "panels": summary["panels"],
        "commit": summary["versions"].get("git", "unknown"),
        "code": summary["code"],
        "versions": {key: summary["versions"][key] for key in ("agentgym-rl", "verl", "torch")},
    }
    if engine:
        entry["engine"] = engine
    if losses := steps(place, "supervised/loss", f"stage/{Cloning.stage}"):
        entry["cloned"] = losses[-1]
    if study.watched:
        entry |= learning(place, *study.watched)
    if study.measures:
        entry["measures"] = measured(study, place)
    return entry


@contextmanager
def in_turn(study: Study) -> Iterator[None]:
    """One process at a time reads and writes the raw results and the page: seeds may run side by side."""
    handle = os.open(study.raw.parent, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def record(study: Study, row: dict[str, Any]) -> None:
    """Add a row to the raw results, in the place of one of its arm and seed."""
    others = [other for other in results(study) if (other["arm"], other["seed"]) != (row["arm"], row["seed"])]
    write(study, [*others, row])


def confirm(study: Study, row: dict[str, Any], folder: Path) -> list[str]:
    """Compare a row that was made again, and confirm the others of its arm and code; the keys that differ.

    Where one does, the raw results stay as they are.

    Raises:
        OtherClone: see :func:`check_clone`; a row that was stale was not compared when others were recorded.
    """
    rows = results(study)
    (known,) = (other for other in rows if (other["arm"], other["seed"]) == (row["arm"], row["seed"]))
    if not (odd := differing(known, row)):
        kept = confirmed(rows, row)
        for other in kept:
            if other not in rows and "cloned" in other:
                check_clone(study, other, kept, folder)
        write(study, kept)
    return odd


def write(study: Study, rows: Sequence[dict[str, Any]]) -> None:
    """Write the raw results, by seed."""
    rows = sorted(rows, key=lambda row: (row["seed"], list(study.arms).index(row["arm"])))
    write_text(study.raw, "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def gradient_groups(place: Path) -> float | None:
    """Part of the groups of a run whose rewards differ; None where no task has two episodes.

    A step's groups are as many as those of any other.
    """
    shares = steps(place, "rollout/gradient_groups")
    return round(mean(shares), 3) if shares else None


def measured(study: Study, place: Path) -> dict[str, float]:
    """The measures of a run; those that none of its steps has are left out."""
    by_step = {name: steps(place, measure.metric)[measure.steps] for name, measure in study.measures.items()}
    return {name: round(study.measures[name].shown(mean(values)), 3) for name, values in by_step.items() if values}


def steps(place: Path, metric: str, *beside: str) -> list[float]:
    """A metric of the steps of a run that have it, and the keys ``beside`` it, such as that of a stage."""
    return [row[metric] for row in read_jsonl(place / "metrics.jsonl") if {metric, *beside} <= row.keys()]


def learning(place: Path, label: str, *envs: str) -> dict[str, Any]:
    """Tokens of the training episodes, and success on a panel on the way, the mean over environments: rows of episodes,
    tokens, success, and beside them of updates of the stage and minutes of its training.

    Weights that were evaluated again, as those of the last round are at the end, count as evaluated last. Those of a
    control do not count.
    """
    rows = [row for row in read_jsonl(place / "metrics.jsonl") if "stage/control" not in row]
    keys = [f"val/{label}/{env}/success" for env in envs]
    points = {row["run/episodes"]: row for row in rows if keys[0] in row}.values()
    spent = [
        (row["run/stage_updates"], row["run/stage_training_s"]) if row["run/episodes"] else (0, 0) for row in points
    ]
    return {
        "tokens": rows[-1]["run/tokens"],
        "curve": [[row["run/episodes"], row["run/tokens"], mean(row[key] for key in keys)] for row in points],
        "curve_spent": [[updates, round(seconds / 60, 2)] for updates, seconds in spent],
    }


def _success(study: Study, stage: dict[str, Any]) -> dict[str, list[Any]]:
    """Success, number of episodes and success by task, by column."""
    scores = {name: stage["panels"][label][env]["sampled"] for name, (label, env) in study.columns.items()}
    return {name: [measured["success"], measured["n"], measured["by_task"]] for name, measured in scores.items()}


def results(study: Study) -> list[dict[str, Any]]:
    """The raw results so far."""
    return json.loads(study.raw.read_text()) if study.raw.is_file() else []


def train_all(
    study: Study, todo: Todo, folder: Path, console: Console, engine: str | None, confirming: bool
) -> list[str]:
    """Run what is asked for and record each row at once.

    Args:
        confirming: compare each row with the recorded one, in place of recording it.

    Returns:
        what was not confirmed.

    Raises:
        OtherClone: see :func:`check_clone`; that row is not recorded, or nothing is confirmed by it.
    """
    differ = []
    for row in run(study, todo, folder, console, engine):
        with in_turn(study):
            if not confirming:
                check_clone(study, row, results(study), folder)
                record(study, row)
            elif odd := confirm(study, row, folder):
                differ.append(f"{row['arm']}, seed {row['seed']}: {', '.join(odd)} differ; --renew --arms {row['arm']}")
    return differ


def asked() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=list(STUDIES))
    parser.add_argument("--seeds", type=int, nargs="+", help="those of the design without it")
    parser.add_argument("--arms", nargs="+", metavar="ARM", help="all of the study without it")
    parser.add_argument("--folder", type=Path, default=Path("runs/evidence"), help="of the runs")
    parser.add_argument("--engine", metavar="RECIPE", help="of recipes/engine, such as one_gpu; the study's without it")
    parser.add_argument("--page", action="store_true", help="only write the page from the raw results")
    parser.add_argument(
        "--plan", action="store_true", help="only print what is left to run, and about how long it trains"
    )
    parser.add_argument("--power", action="store_true", help="only print the power of the claims")
    parser.add_argument("--stale", action="store_true", help="only list the rows of older code")
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--renew", action="store_true", help="also run again what older code has finished")
    again.add_argument(
        "--confirm",
        action="store_true",
        help="only run a stale row of each arm again, and keep the others if it is the same",
    )
    options = parser.parse_args()
    given = {f"--{key}" for key, value in vars(options).items() if value != parser.get_default(key)} - {"--study"}
    reading = given & {"--page", "--power", "--stale"}
    for alone in reading:
        if others := sorted(given - {alone}):
            parser.error(f"{alone} goes with no other option; leave out {' '.join(others)}")
    study = STUDIES[options.study]
    if unknown := set(options.arms or ()) - set(study.arms):
        parser.error(f"--arms {' '.join(sorted(unknown))}: the study {options.study} has {', '.join(study.arms)}")
    options.seeds = [] if reading else list(options.seeds or DESIGNS[options.study].seeds)
    options.arms = options.arms or list(study.arms)
    try:
        check_engine(study, options.seeds, options.engine)
    except ValueError as error:
        parser.error(str(error))
    return options


def main() -> None:
    options = asked()
    study, folder = STUDIES[options.study], options.folder / (options.engine or "")
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 130)

    def tell(*lines: str) -> None:
        console.print(*lines, sep="\n", highlight=False, soft_wrap=True)

    if options.stale:
        for row in results(study):
            if reason := why(row):
                tell(f"{row['arm']}, seed {row['seed']}: {reason}")
        return
    if options.power:
        tell(*power_table(options.study, {name: results(other) for name, other in STUDIES.items()}))
        return
    if options.confirm:
        todo = unconfirmed(study, options.seeds, options.arms, folder, options.engine)
    else:
        todo = missing(study, options.seeds, options.arms, folder, options.renew)
    if options.plan:
        tell(*plan(options.study, todo, options.engine))
        return
    try:
        differ = train_all(study, todo, folder, console, options.engine, options.confirm)
    except (Interrupted, KeyboardInterrupt):
        tell("stopped; the same command goes on")
        raise SystemExit(130) from None
    except OtherClone as error:
        raise SystemExit(str(error)) from None
    with in_turn(study):
        by_study = {name: results(other) for name, other in STUDIES.items()}
        rows = DESIGNS[options.study].reported(by_study[options.study])
        for path in {study.page, OVERVIEW}:
            write_text(path, page(path, path.read_text(), by_study))
        pictures(study, rows)
    tell(*notes(options.study, rows), f"raw results: {study.raw}\npage: {study.page}\nall claims: {OVERVIEW}")
    if differ:
        tell("not confirmed:", *differ)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
