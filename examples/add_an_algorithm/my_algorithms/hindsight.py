r"""Hindsight relabelling: an episode that failed is the solution of another task (arXiv 1707.01495).

    .venv/bin/pip install --no-deps --no-build-isolation -e examples/add_an_algorithm
    agentgym-rl train experiment=smoke +env=maze envs.textcraft.share=0 algorithm=hindsight

A compact observation of a maze says how far the goal is, ``goal two down one left open up``. Had the goal been where an
episode ended, it would have said the difference to the last observation. With each distance changed so, a failure
becomes a success, which is learned from like others. It ends where it first came to its new goal.
"""

import re
from dataclasses import dataclass

from agentgym_rl.algorithms.base import Metrics, OnlineAlgorithm, Run
from agentgym_rl.algorithms.config import OnlineConfig
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.data.episode import Episode
from agentgym_rl.envs import Task
from agentgym_rl.envs.core import Message

GOAL = re.compile(r"\bgoal(?: (\w+) (up|down))?(?: (\w+) (left|right))? open\b")
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(kw_only=True)
class HindsightConfig(OnlineConfig):
    """Keys of ``algorithm=hindsight``."""

    mini_batch_trajectories: int = 8
    """Episodes of an update."""
    weight: float = 0.5
    """Of an episode with another goal; one that reached its own has 1."""


class Hindsight(OnlineAlgorithm[HindsightConfig]):
    """Roll out, relabel what failed, imitate."""

    Config = HindsightConfig

    def unit(self, run: Run, number: int) -> Metrics:
        rollouts = [rollout for rollout in run.rollouts(run.requests(number), "rollouts") if rollout.segments]
        run.observe(rollouts)
        rows = [row for rollout in rollouts if rollout.episode.success for row in rollout.imitation()]
        failed = [rollout.episode for rollout in rollouts if not rollout.episode.success]
        relabelled = [(episode.item_id, messages) for episode in failed if (messages := achieved(episode))]
        for item_id, messages in relabelled:
            rows += run.encode(messages, Task.parse(item_id)).imitation(self.config.weight)
        lr, seed = self.rate(number), f"{run.seed}"
        batch = self.config.mini_batch_trajectories
        metrics = run.learn(rows, CROSS_ENTROPY, lr=lr, mini_batch=batch, seed=seed, first_epoch=run.step)
        return metrics | {"hindsight/failed": len(failed), "hindsight/relabelled": len(relabelled)}


def achieved(episode: Episode) -> list[Message]:
    """The conversation with the goal where it ended; empty where it went nowhere, or does not say where."""
    first = GOAL.search(episode.messages[episode.start - 1]["content"])
    places = [] if first is None else [distance(first)]
    for turn in episode.turns if places else ():
        found = GOAL.search(turn.observation)
        places.append(places[-1] if found is None else distance(found))
    if not places or places[-1] == places[0]:
        return []
    end = places[-1]
    last = episode.start + 2 * places.index(end) - 1  # behind the response that leads there

    def said(message: Message) -> str:
        own = message["role"] == "assistant"
        return message["content"] if own else GOAL.sub(lambda found: moved(distance(found), end), message["content"])

    return [{"role": message["role"], "content": said(message)} for message in episode.messages[:last]]


def distance(found: re.Match[str]) -> tuple[int, int]:
    """Rows down and columns right to the goal."""
    down, right = (NUMBERS.index(found[group] or "zero") for group in (1, 3))
    return -down if found[2] == "up" else down, -right if found[4] == "left" else right


def moved(place: tuple[int, int], end: tuple[int, int]) -> str:
    """The words of a distance, to the new goal."""
    down, right = place[0] - end[0], place[1] - end[1]
    rows = f" {NUMBERS[abs(down)]} {'down' if down > 0 else 'up'}" if down else ""
    columns = f" {NUMBERS[abs(right)]} {'right' if right > 0 else 'left'}" if right else ""
    return f"goal{rows}{columns} open"
