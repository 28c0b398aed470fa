r"""Credit from branches: what a turn is worth is told by other endings of the same beginning.

    .venv/bin/pip install --no-deps --no-build-isolation -e examples/add_an_algorithm
    agentgym-rl train experiment=smoke algorithm=tree

Each step rolls out its tasks, then branches from some turns of every episode: the responses before are replayed token
for token, with mask 0, and the policy goes on. With :math:`V_t` the mean return of all episodes through the first
:math:`t` turns, those from there to the next branching point have the advantage :math:`V_{t'} - V_t`. :math:`V_0` is
the mean over the task's episodes, and the last value the return. A branch has its return less the value where it began.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from random import Random
from statistics import fmean

from agentgym_rl.algorithms.base import Metrics, Needs, OnlineAlgorithm, Rollout, Run, groups
from agentgym_rl.algorithms.config import OnlineConfig
from agentgym_rl.algorithms.losses.vanilla import Vanilla, VanillaConfig
from agentgym_rl.algorithms.rows import Row
from agentgym_rl.algorithms.search import replayed
from agentgym_rl.envs import Task
from agentgym_rl.rollout.prefix import Prefix


@dataclass(kw_only=True)
class TreeConfig(OnlineConfig):
    """Keys of ``algorithm=tree``."""

    mini_batch_episodes: int = 16
    """Episodes of an update, branches included."""
    points: int = 2
    """Most turns of an episode that are branched from."""
    branches: int = 2
    """Branches of each."""


class Tree(OnlineAlgorithm[TreeConfig]):
    """Roll out, branch, compare, learn."""

    Config = TreeConfig

    @classmethod
    def needs(cls, config: TreeConfig) -> Needs:
        return Needs(full_context="algorithm=tree", samples_per_task=2)

    def unit(self, run: Run, number: int) -> Metrics:
        config, rows = self.config, list[Row]()
        rollouts = run.rollouts(run.requests(number), "rollouts")
        run.observe(rollouts)
        roots = [rollout for rollout in rollouts if rollout.segments]
        open_to_it = [root for root in roots if root.episode.env in run.replayable]
        points = [(root, turn) for root in open_to_it for turn in drawn(root, config.points, f"{run.seed}:{number}")]
        begin = [(Task.parse(root.episode.item_id), Prefix(responses=replayed(root, turn))) for root, turn in points]
        requests = [run.request(number, task, samples=config.branches, prefix=prefix) for task, prefix in begin]
        branches = iter(run.rollouts(requests, "branches"))
        means = {group[0].group: fmean(root.episode.reward for root in group) for group in groups(roots)}
        values = {id(root): {0: means[root.group], len(root.episode.turns): root.episode.reward} for root in roots}
        for root, turn in points:
            there = [branch for branch in islice(branches, config.branches) if went_through(branch, root, turn)]
            values[id(root)][turn] = value = fmean(rollout.episode.reward for rollout in (root, *there))
            rows += [row for branch in there for row in branch.rows({"advantage": branch.episode.reward - value})]
        dropped = len(points) * config.branches - len(rows)
        rows += [row for root in roots for row in root.rows({"advantage": advantages(values[id(root)])})]
        lr, loss = self.rate(number), Vanilla(VanillaConfig())
        learned = run.learn(rows, loss, lr=lr, mini_batch=config.mini_batch_episodes, epochs=config.epochs)
        return learned | {"tree/points": len(points), "tree/dropped": dropped}


def drawn(root: Rollout, points: int, seed: str) -> list[int]:
    """After how many turns an episode is branched."""
    inner = range(1, len(root.episode.turns))
    return Random(f"{seed}:{root.episode.messages}").sample(inner, min(points, len(inner)))


def went_through(branch: Rollout, root: Rollout, turns: int) -> bool:
    """Whether the environment answered the replayed responses as before, and the policy went on."""
    shown, episode = root.episode.start + 2 * turns, branch.episode
    same = episode.messages[:shown] == root.episode.messages[:shown]
    return bool(branch.segments) and same and episode.prefix_turns == turns < len(episode.turns)


def advantages(values: Mapping[int, float]) -> list[float]:
    """One for each turn, from the values after so many turns."""
    return [values[end] - values[start] for start, end in pairwise(sorted(values)) for _ in range(start, end)]
