r"""Hindsight: an episode that failed is the solution of another task, the goal of which it reached.

Hindsight experience replay (HER, arXiv 1707.01495) for language: of Learn-by-interact's backward construction
(arXiv 2501.10893), the half that needs no model to write instructions. An environment says which goal the commands of
a failed episode reached (:meth:`.TextEnv.achieved`). The responses up to there are replayed in the same task under that
goal, which gives the first observation, and all that follow, as they would have been. With D_h, these episodes,
AgentEvol maximises

.. math:: E_{D_s \cup D_m} [ r \log \pi_\theta(\tau | e, u) ] + w \, E_{D_h} [ \log \pi_\theta(\tau | e, u_h) ]

Shortest first; of one goal at most ``max_per_goal``, no two with the same responses; at most ``share`` times as many as
there are in D_s and D_m. With ``max_per_goal=0`` it is AgentEvol.

No goal that is held out enters: none of a panel or of a split for tests that no training task has, and no task that
shows what one of a panel does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from random import Random

from agentgym_rl.algorithms.base import Metrics, Rollout, Run
from agentgym_rl.algorithms.checks import above, at_least
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.envs import Task, TextEnv
from agentgym_rl.envs.core import EnvError
from agentgym_rl.envs.registry import base_name
from agentgym_rl.envs.sync import wait
from agentgym_rl.rollout.conversation import ContextTooSmall, PolicyStopped, Scripted
from agentgym_rl.rollout.loop import run_attempt

SAMPLED = 1_000
"""Training tasks whose goals are looked up; one of a larger pool that none of them has counts as held out."""


@dataclass(kw_only=True)
class HindsightConfig:
    """Keys of ``algorithm.hindsight``."""

    max_per_goal: int = 0
    """Most relabelled episodes of a goal and round; 0 relabels none."""
    weight: float = 1.0
    """Weight of their loss; that of a demonstration is 1."""
    min_turns: int = 2
    """Fewest turns of one."""
    share: float = 1.0
    """Most of them in a round, for each demonstration and success of its training set."""
    verify: bool = True
    """Keep one only if its environment rewards the replay at the last turn, and not before."""

    def __post_init__(self) -> None:
        at_least(self, 0, "max_per_goal")
        at_least(self, 1, "min_turns")
        above(self, 0, "weight", "share")

    def unused(self) -> Mapping[str, str]:
        """Keys that have no effect beside the others, and why."""
        if self.max_per_goal:
            return {}
        others = {key.name for key in fields(self)} - {"max_per_goal"}
        return dict.fromkeys(others, "algorithm.hindsight.max_per_goal=0 relabels no episode")


@dataclass(frozen=True, slots=True)
class Relabelled:
    """The beginning of an episode, which reached a goal."""

    task: Task
    goal: str
    responses: tuple[str, ...]
    preface: str

    @property
    def of(self) -> tuple[str, str]:
        """Its goal, whichever part of the environment the task is of."""
        return base_name(self.task.env), self.goal


class HeldOut:
    """What no relabelled episode of an environment may be about.

    Args:
        env: a session, with the tasks' own goals.
        panels: tasks of panels.
        pool: indices of training tasks.
    """

    def __init__(self, env: TextEnv, panels: Sequence[Task], pool: Sequence[int]) -> None:
        self.env, self.panels, self.pool = env, panels, pool

    @cached_property
    def goals(self) -> Collection[str]:
        """Goals of panels, and of splits for tests, that no training task has."""
        splits = [split for split in self.env.spec.splits if not split.startswith("train")]
        named = [split for split in splits if not split.endswith("_variants")]
        tested = [Task(self.env.spec.name, index) for split in named for index in self.env.spec.splits[split]]
        held = {self.env.goal(task) for task in (*self.panels, *tested)}
        places = Random("hindsight").sample(range(len(self.pool)), min(SAMPLED, len(self.pool)))
        return held - {self.env.goal(Task(self.env.spec.name, self.pool[place])) for place in places}

    @cached_property
    def contents(self) -> Collection[str]:
        """What the tasks of panels show."""
        return {wait(self.env.content(task)) for task in self.panels}

    def leaks(self, task: Task, goal: str) -> bool:
        """Whether a training task under another goal is held out."""
        if goal in self.goals:
            return True
        _ = self.contents  # of the tasks' own goals
        self.env.pursue(goal)
        try:
            return wait(self.env.content(task)) in self.contents
        finally:
            self.env.pursue("")


class Hindsight:
    """Relabels the failed episodes of a round."""

    def __init__(self, config: HindsightConfig) -> None:
        self.config = config
        self.goals: set[tuple[str, str]] = set()
        """Environment and goal of all that any round relabelled."""
        self._held: dict[str, HeldOut] = {}

    def relabel(
        self, run: Run, episodes: Sequence[Episode], learned: int, known: Collection[tuple[str, tuple[str, ...]]]
    ) -> tuple[list[Rollout], Metrics]:
        """The relabelled episodes of a round.

        Args:
            episodes: that failed, and count.
            learned: demonstrations and successes beside which they are learned.
            known: task and responses of those that are learned already.

        Returns:
            Episodes with their tokens, and ``hindsight/<env>/{found,kept,goals_new,leaked,rejected,too_long}``.
        """
        rollouts: list[Rollout] = []
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        per_goal: Counter[tuple[str, str]] = Counter()
        seen = set[tuple[tuple[str, str], tuple[str, ...]]]()
        candidates = [relabelled for episode in episodes for relabelled in self._found(run, episode)]
        for new in sorted(candidates, key=lambda relabelled: len(relabelled.responses)):
            count = counts[new.task.env]
            count["found"] += 1
            repeated = (new.of, new.responses) in seen or (str(new.task), new.responses) in known
            full = per_goal[new.of] >= self.config.max_per_goal or len(rollouts) + 1 > self.config.share * learned
            if repeated or full:
                continue
            seen.add((new.of, new.responses))
            outcome, rollout = self._learnable(run, new)
            count[outcome] += 1
            if rollout is None:
                continue
            rollouts.append(rollout)
            per_goal[new.of] += 1
            count["goals_new"] += new.of not in self.goals
            self.goals.add(new.of)
        names = ("found", "kept", "goals_new", "leaked", "rejected", "too_long")
        envs = sorted({episode.env for episode in episodes})
        return rollouts, {f"hindsight/{env}/{name}": float(counts[env][name]) for env in envs for name in names}

    def _found(self, run: Run, episode: Episode) -> Iterator[Relabelled]:
        """The beginning of an episode that reached another goal, if there is one of enough turns."""
        task = Task.parse(episode.item_id)
        read = [number for number, turn in enumerate(episode.turns, start=1) if turn.action is not None]
        commands = [turn.action for turn in episode.turns if turn.action is not None]
        reached = run.environment(task.env).achieved(task, commands)
        if reached is None or (last := read[reached.upto_turn - 1]) < self.config.min_turns:
            return
        responses = tuple(turn.response for turn in episode.turns[:last])
        yield Relabelled(task, reached.goal, responses, episode.preface)

    def _learnable(self, run: Run, new: Relabelled) -> tuple[str, Rollout | None]:
        """What becomes of it, and its tokens where it is kept."""
        env = run.environment(new.task.env)
        if self._held_out(run, new.task.env).leaks(new.task, new.goal):
            return "leaked", None
        episode = replayed(run, env, new)
        if episode is None or (self.config.verify and not solves(env, episode, len(new.responses))):
            return "rejected", None
        try:
            return "kept", run.encode(episode.messages, new.task)
        except ContextTooSmall:
            return "too_long", None

    def _held_out(self, run: Run, name: str) -> HeldOut:
        if name not in self._held:
            parts = [part for part in run.pools if base_name(part) == base_name(name)]
            panels = [Task(name, task.index) for part in parts for task in run.panel_tasks[part]]
            pool = [index for part in parts for index in run.pools[part]] if len(parts) > 1 else run.pools[name]
            self._held[name] = HeldOut(run.environment(name), panels, pool)
        return self._held[name]


def replayed(run: Run, env: TextEnv, new: Relabelled) -> Episode | None:
    """The episode that the responses make under the goal; None where the environment fails."""

    def end(messages: object) -> str:
        raise PolicyStopped

    conversation, turns = Scripted(end, prefix=new.responses), len(new.responses)
    env.pursue(new.goal)
    try:
        return wait(run_attempt(env, new.task, conversation, run.rules, turns, preface=new.preface))
    except EnvError:
        return None
    finally:
        env.pursue("")


def solves(env: TextEnv, episode: Episode, turns: int) -> bool:
    """Whether an episode of so many turns earns success by its last one, and nothing before."""
    early = len(episode.turns) < turns or any(turn.reward for turn in episode.turns[:-1])
    return not early and episode.ending is Ending.TERMINATED and env.spec.success(episode.reward)
