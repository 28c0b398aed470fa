"""Running a plan: any number of episodes at once, kept as they finish, resumed after an interruption."""

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from agentgym_rl.data import episode_store, panels
from agentgym_rl.data.files import alone, check_file
from agentgym_rl.envs.hosts import EnvHost, LocalHost
from agentgym_rl.eval import intervals
from agentgym_rl.eval.evaluation import result
from agentgym_rl.eval.evaluation.plan import Plan
from agentgym_rl.eval.evaluation.result import Result
from agentgym_rl.rollout.journal import Entry, Journal, beside
from agentgym_rl.rollout.loop import check_rules
from agentgym_rl.rollout.policies import Policy, Price
from agentgym_rl.rollout.runner import PATIENCE, Progress, episodes_of, run_jobs

EPISODES = Path("episodes") / "evaluation.parquet"
"""Where the episodes are in an evaluation's folder, which is one for the episode store."""


async def evaluate(
    plan: Plan,
    policy: Policy,
    folder: Path,
    *,
    concurrency: int = 1,
    host: EnvHost | None = None,
    progress: Progress | None = None,
    price: Price = (0, 0),
) -> Result:
    """Run every episode of a plan, in any order, and write ``result.json``, ``panel.json`` and the episodes.

    Finished episodes are kept beside ``result.json`` until it is there, so that the same call goes on after a kill.
    Where the folder holds the result of the same plan, its episodes are taken over, and those that failed outside the
    agent run again.

    Args:
        policy: what its model used in earlier calls is added to its usage.
        concurrency: episodes that run at the same time, each in a session of its own.
        host: where the environments run; None is this process.

    Raises:
        ValueError: an argument is out of range, the rules do not suit an environment, the folder holds another
            evaluation or another process writes it, or the policy refused.
        EnvUnavailable: ``PATIENCE`` episodes in a row failed; what has finished is kept.
        MissingExtra: an environment, pyarrow or scipy is not installed.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency is {concurrency}; give at least 1")
    episode_store.packages()
    intervals.stats()
    host = host or LocalHost()
    begun = time.monotonic()
    for env in plan.suite.envs:
        options = plan.rules.session_options(env)
        await host.check(env, options)
        check_rules(host.open(env, options), plan.rules.of_env(env))
    place = folder / result.NAME
    check_file(place)
    with alone(folder):
        earlier = _earlier(plan, folder)
        with Journal(beside(place), plan.to_dict()) as journal:
            begun -= _take_over(journal, policy, folder, earlier)
            so_far = partial(_so_far, policy, begun)
            try:
                entries = await run_jobs(
                    plan.jobs,
                    episodes_of(policy, plan.rules.of_env, so_far=so_far),
                    host,
                    plan.rules.session_options,
                    journal=journal,
                    concurrency=concurrency,
                    patience=PATIENCE,
                    progress=progress,
                )
            finally:
                journal.add("so far", Entry(facts={"so_far": so_far()}))  # with what unfinished episodes used
                await host.close()
            spent = {} if policy.usage is None else policy.usage.to_dict(price)
            evaluated = _write(plan, entries, folder, {"seconds": so_far()[0], **spent})
            journal.delete()
    return evaluated


def _earlier(plan: Plan, folder: Path) -> Result | None:
    """The result in a folder. Raises ValueError: it is that of another plan."""
    if not (folder / result.NAME).is_file():
        return None
    earlier = result.read(folder)
    before, planned = {"weights": "", **earlier.plan}, plan.to_dict()
    if before != planned:
        changed = [key for key in planned if before.get(key) != planned[key]]
        raise ValueError(
            f"{folder} holds the result of an evaluation with another {' and '.join(changed)}; choose another out="
        )
    return earlier


def _take_over(journal: Journal, policy: Policy, folder: Path, earlier: Result | None) -> float:
    """Take over the episodes and the usage of earlier calls; returns the seconds they took."""
    cost: Mapping[str, Any] = {} if earlier is None else earlier.cost
    if earlier is not None:
        for episode in episode_store.read(folder / EPISODES):
            journal.entries.setdefault(f"{episode.item_id} {episode.tags['sample']}", Entry(episode))
    recorded = [entry.facts["so_far"] for entry in journal.entries.values() if "so_far" in entry.facts]
    names = ("seconds", "calls", "prompt_tokens", "completion_tokens")
    seconds, *used = max(recorded, default=[cost[name] for name in names if name in cost] or [0.0])
    if policy.usage is not None and used:
        policy.usage.calls, policy.usage.prompt_tokens, policy.usage.completion_tokens = map(int, used)
    return float(seconds)


def _so_far(policy: Policy, begun: float) -> list[float]:
    """Seconds and, of a model, calls, prompt and completion tokens."""
    used = [] if policy.usage is None else policy.usage.to_dict().values()
    return [round(time.monotonic() - begun, 1), *used]


def _write(plan: Plan, entries: list[Entry], folder: Path, cost: Mapping[str, Any]) -> Result:
    names = {panel.env: panel.name for panel in plan.suite.panels}
    decoding = "sampled" if plan.temperature else "greedy"
    episodes = []
    for job, entry in zip(plan.jobs, entries, strict=True):
        assert entry.episode is not None
        entry.episode.seed = plan.seed
        entry.episode.tags |= {"panel": names[job.task.env], "decoding": decoding, "sample": job.sample}
        episodes.append(entry.episode)
    episode_store.write(folder / EPISODES, episodes)
    panels.write_item_ids(folder / "panel.json", plan.suite.tasks)
    evaluated = Result.of(plan, episodes, cost)
    evaluated.write(folder)
    return evaluated
