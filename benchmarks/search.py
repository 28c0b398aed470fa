"""Tasks solved per 1,000 model calls: tree exploration against independent sampling, on the same failed tasks.

Every task is sampled first. Where all samples failed, both arms get the same number of further model calls (responses
generated; replayed ones cost nothing) and stop at the first success: *tree* branches from turns of failed episodes,
*afresh* samples the task from its start again. Both start from the same samples and run through the same code.

    python benchmarks/search.py --policy noisy                      # no engine: the oracle with mistakes; seconds
    python benchmarks/search.py --run runs/demo-agentevol-seed0     # a run's newest weights on the engine; minutes

Printed: medians over repeats with [least, most], and the ratio tree/afresh over all repeats with a 95% interval from
10,000 bootstrap draws of tasks (a task is drawn with all its repeats); ``nan`` where neither arm solved any.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

from options import positive, spread

from agentgym_rl.algorithms.base import Request, Rollout
from agentgym_rl.algorithms.search import Branch, Node, SearchConfig, Searched, TreeSearch, search, unsolved
from agentgym_rl.data.files import write_text
from agentgym_rl.data.panels import sample
from agentgym_rl.envs import Task, TextEnv, make
from agentgym_rl.envs.core import EnvSpec, Message, Observation, Step
from agentgym_rl.eval.evaluation.rules import read_config
from agentgym_rl.rollout.conversation import Scripted
from agentgym_rl.rollout.loop import run_episode
from agentgym_rl.rollout.policies.scripted import to_response
from agentgym_rl.rollout.settings import RolloutSettings


class Fork(TextEnv):
    """The first move decides, and nothing shows it until the last of eight."""

    name = "fork"

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name=self.name, instructions={"agentgym": "Find the garden.", "compact": "Find the garden."},
            splits={"train": range(1000)}, max_turns=8, success_above=0.5, licence="none needed", replayable=True,
        )  # fmt: skip

    def oracle(self, task: Task) -> list[str]:
        return [f"door {task.index}", *["on"] * 7]

    def goal(self, task: Task) -> str:
        return "find the garden"

    def difficulty(self, task: Task) -> str:
        return "any"

    async def _reset(self, task: Task) -> Observation:
        self.right, self.moves = f"door {task.index}", list[str]()
        return Observation("Some doors.")

    async def _step(self, action: str) -> Step:
        self.moves.append(action)
        won = len(self.moves) == 8 and self.moves[0] == self.right
        return Step(Observation(f"Room {len(self.moves)}."), float(won), won)


ENVS: dict[str, dict[str, Any]] = {
    "textcraft": {"split": "train", "difficulty": ["depth [234]"]},
    "babyai": {
        "split": "train_variants",
        "difficulty": ["OpenRedBlueDoorsDebug", "OpenDoorsOrderN4Debug", "PutNextLocalS6N4", "UnlockLocalDist"],
    },
    "fork": {"split": "train", "difficulty": ["any"], "epsilon_first": 0.98},
}
"""Tasks of the noisy policy: those that take more than two or three commands; and how often its first one is wrong."""

Samplers = tuple[Callable[[Sequence[Task], int, int], list[Rollout]], Callable[[Sequence[Branch], int], list[Rollout]]]
"""Samples tasks (so many a task, with a seed), and plays branches (with a seed)."""


class Afresh(TreeSearch):
    """Independent sampling by the same rules: always from the start, avoiding nothing."""

    def choose(self) -> Node:
        return Node(self.root.source)


class Noisy:
    """The oracle, forgetful: with probability ``epsilon(turn)`` it says something else and goes on as if it had not.

    Instead it says an action the environment lists, or another command of its plan where the environment lists none.
    """

    def __init__(self, plan: Sequence[str], epsilon: Callable[[int], float], seed: str, env: TextEnv) -> None:
        self.plan, self.epsilon, self.env = plan, epsilon, env
        self.rng = random.Random(seed)
        self.possible: Sequence[str] = plan
        self.head = len(env.spec.conversation_start(env.style)) + 1

    def __call__(self, messages: list[Message]) -> str:
        turn = (len(messages) - self.head) // 2
        command = self.plan[turn] if turn < len(self.plan) else self.rng.choice(self.possible)
        if self.rng.random() < self.epsilon(turn):
            others = [other for other in self.possible if other != command]
            command = self.rng.choice(others or ["look"])
        return to_response(command, self.env)

    def watch(self, action: str | None, step: Step) -> None:
        self.possible = step.observation.actions or self.plan


def opened(name: str) -> TextEnv:
    """An environment of the noisy policy."""
    return Fork("compact") if name == Fork.name else make(name, style="compact")


def noisy(env: TextEnv, settings: RolloutSettings, epsilon: float) -> Samplers:
    """Play with noisy oracles."""
    plans: dict[Task, list[str]] = {}
    first = ENVS[env.name].get("epsilon_first", epsilon)

    async def play(task: Task, seed: str, branch: Branch | None) -> Rollout:
        if task not in plans:
            plans[task] = env.oracle(task)
        session = opened(env.name)
        policy = Noisy(plans[task], lambda turn: epsilon if turn else first, seed, session)
        extra = (branch.responses, branch.avoid, branch.resamples) if branch else ()
        conversation = partial(Scripted, policy, *extra)
        max_turns = branch.max_turns if branch else None
        episode, _ = await run_episode(lambda: session, task, conversation, settings, max_turns, watch=policy.watch)
        episode.tags = branch.tags() if branch else {}
        return Rollout(episode=episode)

    async def every(games: Sequence[Any]) -> list[Rollout]:
        return list(await asyncio.gather(*games))

    def samples(tasks: Sequence[Task], n: int, seed: int) -> list[Rollout]:
        return asyncio.run(every([play(task, f"{seed}:{task}:{k}", None) for task in tasks for k in range(n)]))

    def branches(proposed: Sequence[Branch], seed: int) -> list[Rollout]:
        return asyncio.run(
            every([play(Task.parse(b.item_id), f"{seed}:{b.item_id}:branch{b.number}", b) for b in proposed])
        )

    return samples, branches


@contextmanager
def engine(run: Path) -> Iterator[tuple[Any, Samplers]]:
    """The configuration of a run, and players with its newest weights on a running engine."""
    from omegaconf import OmegaConf

    from agentgym_rl.engine.recipe.compose import restore
    from agentgym_rl.engine.run import tiny
    from agentgym_rl.engine.run.session import variables
    from agentgym_rl.rollout import pretrained

    config = restore(read_config(run))
    os.environ.update(variables(config.engine))

    from agentgym_rl.engine.recipe.resolved import Resolved
    from agentgym_rl.engine.verl.cluster import cluster
    from agentgym_rl.engine.verl.dataset import row
    from agentgym_rl.engine.verl.launch import launch
    from agentgym_rl.engine.verl.mapping import verl_config
    from agentgym_rl.engine.verl.network import largest_tensor, skeleton

    state = json.loads((run / "state.json").read_text())
    resolved = Resolved(config)
    model = pretrained.local(config.model.path) if config.model.path else str(tiny.home(resolved, run.resolve()))
    if config.model.path is None and not Path(model).is_dir():
        sys.exit(f"{model}, the tiny model of {run}, is gone")
    settings = verl_config(resolved, model, run.resolve(), largest_tensor(skeleton(model)))
    OmegaConf.resolve(settings)
    with cluster(settings, variables(config.engine), config.engine.ray_address):
        trainer = launch(settings, config.engine.start_seconds, print)
        trainer.weights.restore(run.resolve() / "checkpoints" / state["checkpoint"])
        trainer.global_steps = state["global_step"]

        def roll_out(requests: Sequence[Request]) -> list[Rollout]:
            batch = []
            for index, request in enumerate(requests):
                prefix = {} if request.prefix is None else {"prefix": request.prefix.to_dict()}
                fields = {"max_turns": request.max_turns, "tags": request.tags, **prefix}
                batch.append(row(index, request.task, seed=config.seed, __rollout_n__=1, **fields))
            return trainer.sampler.rollouts(batch, validate=False)

        def samples(tasks: Sequence[Task], n: int, seed: int) -> list[Rollout]:
            limits = {name: env.max_turns for name, env in config.envs.items()}
            return roll_out([Request(task=task, max_turns=limits[task.env]) for task in tasks for _ in range(n)])

        def branches(proposed: Sequence[Branch], seed: int) -> list[Rollout]:
            return roll_out([branch.request() for branch in proposed])

        yield config, (samples, branches)


def tasks_solved(searched: Searched, item_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Whether each task was solved, and the calls spent on it."""
    solved = {rollout.episode.item_id for rollout in searched.solved}
    calls = dict.fromkeys(item_ids, 0)
    for rollout in searched.rollouts:
        calls[rollout.episode.item_id] += rollout.episode.calls
    return {item_id: (int(item_id in solved), calls[item_id]) for item_id in item_ids}


def measure(players: Samplers, tasks: Sequence[Task], arguments: argparse.Namespace, settings: SearchConfig) -> Any:
    """One table row a repeat: by arm, what became of every failed task."""
    samples, branches = players
    repeats = []
    for repeat in range(arguments.repeats):
        played = samples(tasks, arguments.samples, repeat)
        failed = list(unsolved(played, {tasks[0].env}))
        row: dict[str, Any] = {"failed": failed}
        for name, kind in (("tree", TreeSearch), ("afresh", Afresh)):
            searched = search(
                played, lambda proposed, repeat=repeat: branches(proposed, repeat), settings,
                replayable={tasks[0].env}, seed=repeat, tree=kind,
            )  # fmt: skip
            row[name] = tasks_solved(searched, failed)
            row[f"{name}_lost"] = len(searched.dropped) + searched.failed
        repeats.append(row)
        print(f"  repeat {repeat + 1} of {arguments.repeats}: {len(failed)} of {len(tasks)} tasks failed", flush=True)
    return repeats


def rate(results: Sequence[tuple[int, int]]) -> float:
    """Tasks solved per 1,000 calls."""
    return 1000 * sum(solved for solved, _ in results) / max(1, sum(calls for _, calls in results))


def ratio_interval(repeats: Sequence[Any], draws: int = 10_000) -> tuple[float, float]:
    """95% interval of the ratio of the arms' rates, by bootstrap over tasks, of the draws that have a ratio."""
    outcomes_of: dict[str, list[tuple[int, int, int, int]]] = {}
    for row in repeats:
        for item_id in row["failed"]:
            outcomes_of.setdefault(item_id, []).append((*row["tree"][item_id], *row["afresh"][item_id]))
    sums = [tuple(sum(part) for part in zip(*outcomes, strict=True)) for outcomes in outcomes_of.values()]
    rng = random.Random(0)
    drawn = [rng.choices(sums, k=len(sums)) for _ in range(draws if sums else 0)]
    every = [ratio(*(sum(part) for part in zip(*tasks, strict=True))) for tasks in drawn]
    ratios = sorted(value for value in every if not isnan(value))
    return (ratios[int(0.025 * len(ratios))], ratios[int(0.975 * len(ratios))]) if ratios else (nan, nan)


def ratio(tree: int, tree_calls: int, fresh: int, fresh_calls: int) -> float:
    """Of the arms' rates: infinite where only the tree solved a task, no number where neither arm did."""
    if not fresh:
        return inf if tree else nan
    return tree * fresh_calls / (max(1, tree_calls) * fresh)


def report(setting: str, repeats: Sequence[Any]) -> dict[str, Any]:
    """Print a table and return it."""
    table: dict[str, Any] = {"setting": setting, "failed": [len(row["failed"]) for row in repeats]}
    for arm in ("tree", "afresh"):
        outcomes = [list(row[arm].values()) for row in repeats]
        table[arm] = {
            "solved": [sum(solved for solved, _ in outcome) for outcome in outcomes],
            "calls": [sum(calls for _, calls in outcome) for outcome in outcomes],
            "solved_per_1000_calls": [round(rate(outcome), 3) for outcome in outcomes],
            "lost_branches": [row[f"{arm}_lost"] for row in repeats],
        }
    sums = [sum(table[arm][key]) for arm in ("tree", "afresh") for key in ("solved", "calls")]
    value, (low, high) = ratio(*sums), ratio_interval(repeats)
    table["ratio"] = {"value": round(value, 3), "ci95": [round(low, 3), round(high, 3)]}
    print(f"\n{setting}\nmedian [least, most] over {len(repeats)} repeats   tree                   afresh")
    for key, label in (("solved", "failed tasks solved"), ("calls", "model calls spent"),
                       ("solved_per_1000_calls", "solved per 1,000 calls")):  # fmt: skip
        print(f"{label:44s} {spread(table['tree'][key]):22s} {spread(table['afresh'][key])}")
    print(f"tasks that failed their samples: {spread(table['failed'], 0)}")
    print(f"ratio of solved per 1,000 calls: {value:.2f}, 95% interval [{low:.2f}, {high:.2f}]")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--policy", choices=["noisy"], help="play without a model")
    where.add_argument("--run", type=Path, help="folder of a trained run")
    parser.add_argument("--env", nargs="+", help="environments; the run's own, or textcraft, babyai and fork")
    parser.add_argument("--tasks", type=positive, default=100, help="tasks an environment")
    parser.add_argument("--samples", type=positive, default=2, help="samples a task before the search")
    parser.add_argument("--calls", type=positive, default=48, help="model calls a failed task and arm")
    parser.add_argument("--branches", type=positive, default=2, help="branches of a task at a time")
    parser.add_argument("--resamples", type=int, default=3, help="further tries for another command at a branch")
    parser.add_argument("--exploration", type=float, default=1.4)
    parser.add_argument("--epsilon", type=float, default=0.3, help="mistakes of the noisy policy")
    parser.add_argument("--repeats", type=positive, default=5, help="samplings of the same tasks")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of tasks")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    arguments = parser.parse_args()
    known = ENVS if arguments.policy else read_config(arguments.run)["envs"]
    if unknown := set(arguments.env or ()) - set(known):
        parser.error(f"--env {' '.join(sorted(unknown))}: choose {', '.join(known)}")
    settings = SearchConfig(
        calls=arguments.calls, exploration=arguments.exploration, branches=arguments.branches,
        resamples=arguments.resamples,
    )  # fmt: skip
    budget = f"{arguments.tasks} tasks, {arguments.samples} samples, then {arguments.calls} calls"
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    tables = []
    if arguments.policy:
        rules = RolloutSettings(style="compact", invalid_limit=2)
        for name in arguments.env or ENVS:
            env = opened(name)
            chosen = sample(env, ENVS[name]["split"], ENVS[name]["difficulty"], arguments.tasks, arguments.seed)
            repeats = measure(noisy(env, rules, arguments.epsilon), chosen, arguments, settings)
            tables.append(report(f"{name}, noisy oracle (epsilon {arguments.epsilon}), {budget}; {machine}", repeats))
    else:
        with engine(arguments.run) as (config, players):
            from agentgym_rl.engine.recipe.resolved import Resolved

            envs = Resolved(config).local
            for name in arguments.env or config.envs:
                of_env = config.envs[name]
                chosen = sample(envs[name], of_env.split, of_env.difficulty, arguments.tasks, arguments.seed)
                repeats = measure(players, chosen, arguments, settings)
                tables.append(report(f"{name} {of_env.split}, run {arguments.run.name}, {budget}; {machine}", repeats))
    if arguments.out:
        write_text(arguments.out, json.dumps({"arguments": vars(arguments), "tables": tables}, default=str) + "\n")


if __name__ == "__main__":
    main()
