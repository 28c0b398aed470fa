"""Reference bounds of a panel: the random policy and the oracle."""

from collections.abc import Mapping
from typing import Any

from agentgym_rl.envs import Task
from agentgym_rl.envs.hosts import LocalHost
from agentgym_rl.envs.numbering import Panel
from agentgym_rl.eval.score import Score, score
from agentgym_rl.rollout.policies import Oracle, Policy, Random
from agentgym_rl.rollout.policies.scripted import NoActions
from agentgym_rl.rollout.runner import Job, episodes_of, run_jobs
from agentgym_rl.rollout.settings import RolloutSettings

POLICIES: Mapping[str, Policy] = {"random": Random(), "oracle": Oracle()}


async def reference(panel: Panel, policy: str, settings: RolloutSettings, options: Mapping[str, Any]) -> Score | None:
    """Score of the ``random`` or the ``oracle`` policy, by the same rules as the model's episodes.

    A task whose oracle is unknown or longer than the turn limit counts as failed. None where the random policy has
    nothing to choose from.
    """
    jobs = [Job(Task.parse(item_id)) for item_id in panel.item_ids]
    of_class = {**options, "style": settings.style.value}
    work = episodes_of(POLICIES[policy], lambda _: settings)
    try:
        entries = await run_jobs(jobs, work, LocalHost(), lambda _: of_class)
    except NoActions:
        return None
    return score([entry.episode for entry in entries if entry.episode is not None], panel.digest)
