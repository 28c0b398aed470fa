"""A published result, run again: trained, evaluated as it was, and set beside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import yaml

from agentgym_rl.api.published import Target, find
from agentgym_rl.api.training import further, run_command
from agentgym_rl.data.files import write_text
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.tables import json_object
from agentgym_rl.eval.by_seed import Panel, of_tasks
from agentgym_rl.eval.crossed import crossed
from agentgym_rl.eval.evaluation import result as results
from agentgym_rl.eval.evaluation.rules import flat
from agentgym_rl.eval.evaluation.scores import Measure

if TYPE_CHECKING:
    from agentgym_rl.engine.recipe.resolved import Resolved

NAME = "result.json"


@dataclass(frozen=True, slots=True)
class Line:
    """An environment: the published number beside ours, all in percent."""

    env: str
    weights: str
    """last, or the step that the published number is of."""
    measure: str
    """success or reward."""
    published: float
    ours: float
    interval: tuple[float, float]
    """95%, over seeds and tasks, or over the tasks of the panel where there is one seed."""
    over: str
    """seeds and tasks, or tasks."""
    by_seed: Mapping[int, float]

    @property
    def difference(self) -> tuple[float, float, float]:
        """Ours minus the published number, with the bounds of our interval; that of theirs is not known."""
        return self.ours - self.published, self.interval[0] - self.published, self.interval[1] - self.published


@dataclass(frozen=True, slots=True)
class Cost:
    """What the training of all seeds took, evaluations on the way included."""

    gpu_hours: float
    cpu_hours: float
    """Hours of runs without a GPU, times their workers."""
    episodes: int
    tokens: int
    """Of the training episodes."""


@dataclass(frozen=True, slots=True)
class Reproduced:
    """What is left of a reproduction: a table, and the file that a page is renewed from."""

    name: str
    source: str
    published_seeds: str
    changed: tuple[str, ...]
    """Settings other than the published ones."""
    lines: tuple[Line, ...]
    cost: Cost
    commits: tuple[str, ...]
    """Of the code that trained; none where it was no git checkout."""
    code: tuple[str, ...]
    """Digests of that code, see :func:`agentgym_rl.engine.recipe.digest.code`; none of a version that took none."""
    panels: Mapping[str, str]
    """Digest by environment."""
    runs: Mapping[int, str]
    """Folder by seed."""

    def write(self, folder: Path) -> Path:
        """Write ``result.json``, whole."""
        write_text(folder / NAME, json.dumps(asdict(self), indent=1) + "\n")
        return folder / NAME


@dataclass(frozen=True)
class Reproduction:
    """The runs that are to reproduce a published result, one a seed."""

    target: Target
    changes: tuple[str, ...]
    planned: tuple[Resolved, ...]
    """A run a seed."""
    out: Path

    @classmethod
    def of(cls, name: str, changes: Sequence[str] = (), out: Path | None = None) -> Reproduction:
        """
        Args:
            changes: further overrides, ``seed=0,1,2`` for several seeds among them.
            out: folder of the evaluations and the result.

        Raises:
            ValueError: there is no such result, an override is wrong, sweeps over something other than seeds, has one
                twice, or leaves no published checkpoint.
            MissingExtra: recipes cannot be composed.
        """
        with needs("reproducing", "train"):
            from agentgym_rl.engine.recipe.compose import load
            from agentgym_rl.engine.recipe.resolved import Resolved
            from agentgym_rl.engine.run.sweep import expand
        target = find(name)
        expanded = expand([*target.overrides, *changes, *further()])
        if others := sorted({word.partition("=")[0] for swept, _ in expanded for word in swept} - {"seed"}):
            raise ValueError(f"reproduce sweeps over seeds only, not over {', '.join(others)}; give it one value")
        planned = tuple(Resolved(load(words)) for _, words in expanded)
        seeds = [run.config.seed for run in planned]
        if len({*seeds}) < len(seeds):
            raise ValueError(f"seed={','.join(map(str, seeds))} has a seed twice")
        _check_checkpoint(target, planned[0])  # the others differ in their seed
        return cls(target, tuple(changes), planned, out or Path("reproductions") / name)

    @property
    def runs(self) -> dict[int, Path]:
        """Folder of each run by its seed."""
        return {run.config.seed: Path(run.config.run.dir) for run in self.planned}

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """Settings that differ from the published ones and may change what is learned."""
        from agentgym_rl.engine.recipe.compose import identity, load

        ours = self.planned[0].config
        theirs = load([*self.target.overrides, f"seed={ours.seed}"])
        old, new = (dict(flat(yaml.safe_load(identity(config)))) for config in (theirs, ours))
        return tuple(f"{key}={new.get(key)}" for key in {**old, **new} if old.get(key) != new.get(key))

    @cached_property
    def commands(self) -> list[list[str]]:
        """What it runs, one after the other: words after ``agentgym-rl``."""
        multirun = ["-m"] if len(self.planned) > 1 else []
        train = ["train", *multirun, *self.target.overrides, *self.changes]
        return [train, *(self._evaluation(seed, weights) for weights in self._weights for seed in self.runs)]

    @property
    def _weights(self) -> list[str]:
        """The published checkpoint before the last."""
        step = self.target.protocol.checkpoint
        return ([] if step is None else [f"global_step_{step}"]) + ["last"]

    def _evaluation(self, seed: int, weights: str) -> list[str]:
        protocol, folder = self.target.protocol, self.runs[seed]
        policy = folder if weights == "last" else folder / "checkpoints" / weights
        keys = [f"{key}={value}" for key, value in protocol.evaluation.items()]
        panel = f"panel={folder}:{protocol.panel}"
        return ["eval", panel, f"policy={policy}", *keys, f"seed={seed}", f"out={self._evaluated(seed, weights)}"]

    def _evaluated(self, seed: int, weights: str) -> Path:
        return self.out / weights / f"seed{seed}"

    def check(self) -> None:
        """Whether it can run here; nothing is started.

        Raises:
            RecipeError, FileNotFoundError, MissingExtra, ValueError, EnvError: a GPU, the model, an environment or its
                data is missing; the message names it.
        """
        with needs("training", "cpu"):
            from agentgym_rl.engine.recipe import preflight
            from agentgym_rl.rollout import pretrained
        run = self.planned[0]  # the others differ in their seed
        preflight.check(run)
        preflight.check_hosts(run)
        run.ask_envs()
        if (model := run.config.model.path) is not None:
            pretrained.local(model)

    def run(self, quiet: bool = False) -> Reproduced:
        """Train and evaluate what is missing, and write the result.

        Raises:
            RuntimeError: a command failed; the message has its last lines.
            KeyboardInterrupt: it was stopped; the same call goes on.
        """
        for words in self.commands:
            run_command([sys.executable, "-m", "agentgym_rl.cli", *words], quiet)
        reproduced = self.result()
        reproduced.write(self.out)
        return reproduced

    def result(self) -> Reproduced:
        """What the finished runs and evaluations amount to. Raises FileNotFoundError: one is not finished."""
        target = self.target
        summaries = [json_object(folder / "summary.json") for folder in self.runs.values()]
        evaluated = {
            weights: {seed: results.read(self._evaluated(seed, weights)) for seed in self.runs}
            for weights in self._weights
        }
        panels = next(iter(evaluated["last"].values())).plan["panel"]["envs"]
        return Reproduced(
            name=target.name,
            source=target.arm.source,
            published_seeds=target.protocol.seeds,
            changed=self.changed,
            lines=tuple(line for weights, by_seed in evaluated.items() for line in self._lines(weights, by_seed)),
            cost=_cost(self.runs.values()),
            commits=tuple(dict.fromkeys(run["versions"]["git"] for run in summaries if "git" in run["versions"])),
            code=tuple(dict.fromkeys(run["code"] for run in summaries if "code" in run)),
            panels={env: facts["digest"] for env, facts in panels.items()},
            runs={seed: str(folder) for seed, folder in self.runs.items()},
        )

    def _lines(self, weights: str, evaluated: Mapping[int, results.Result]) -> Iterator[Line]:
        for env, published in self.target.arm.values.items():
            measure = self.target.protocol.measure(env)
            with_env = {seed: result for seed, result in evaluated.items() if env in result.by_env}
            if with_env:
                yield _line(env, weights, measure, published, with_env)


def reproduce(name: str, *changes: str, out: Path | None = None, quiet: bool = False) -> Reproduced:
    """Run a published result again, as ``agentgym-rl reproduce`` does.

        reproduce("verl_agent_alfworld_gigpo_1.5b", "seed=0,1,2")

    Raises:
        ValueError, FileNotFoundError, MissingExtra, EnvError: see :meth:`Reproduction.of` and
            :meth:`Reproduction.check`.
        RuntimeError, KeyboardInterrupt: see :meth:`Reproduction.run`.
    """
    reproduction = Reproduction.of(name, changes, out)
    reproduction.check()
    return reproduction.run(quiet)


def _check_checkpoint(target: Target, run: Resolved) -> None:
    """Raises ValueError: the run ends before the step that the published number is of, or does not keep it."""
    step, steps, config = target.protocol.checkpoint, run.algorithm.steps, run.config.run
    if step is None or step == steps:
        return
    faults = {
        f"algorithm.steps={steps} ends before": step > steps,
        f"run.save_every={config.save_every} saves no": not config.save_every or step % config.save_every,
        f"run.keep_checkpoints={config.keep_checkpoints} deletes": config.keep_checkpoints is not None,
    }
    if fault := next((fault for fault, holds in faults.items() if holds), None):
        raise ValueError(f"{fault} step {step}, which the published number is of")


def _line(env: str, weights: str, measure: str, published: float, evaluated: Mapping[int, results.Result]) -> Line:
    scores: dict[int, Measure] = {seed: getattr(result.envs()[env], measure) for seed, result in evaluated.items()}
    by_seed = {seed: 100 * score.value for seed, score in scores.items()}
    if len(scores) > 1:
        panels = [
            (Panel.of(score.value, score.n, _by_task(evaluated[seed], env, measure)),) for seed, score in scores.items()
        ]
        interval, over = crossed([score.value for score in scores.values()], of_tasks(panels)), "seeds and tasks"
    else:
        interval, over = next(iter(scores.values())).ci95, "tasks"
    low, high = (100 * min(1.0, max(0.0, bound)) for bound in interval)
    return Line(env, weights, measure, published, fmean(by_seed.values()), (low, high), over, by_seed)


def _by_task(result: results.Result, env: str, measure: str) -> list[float | None]:
    """Mean over the samples of each task that count."""
    samples = [[value for value in getattr(outcome, measure) if value is not None] for outcome in result.by_env[env]]
    return [fmean(values) if values else None for values in samples]


def _cost(folders: Iterable[Path]) -> Cost:
    gpu = cpu = 0.0
    episodes = tokens = 0
    for folder in folders:
        summary, state = (json_object(folder / name) for name in ("summary.json", "state.json"))
        engine = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))["engine"]
        rollout_workers = engine["rollout_workers"] if engine["mode"] == "separate_async" else 0
        hours = sum(stage["wall_s"] for stage in summary["stages"]) / 3600
        hours *= (engine["workers"] + rollout_workers) * engine["nodes"]
        gpu, cpu = (gpu, cpu + hours) if engine["device"] == "cpu" else (gpu + hours, cpu)
        episodes, tokens = episodes + state["episodes"], tokens + state["tokens"]
    return Cost(gpu, cpu, episodes, tokens)
