"""Gymnasium, both ways: our environments as ``gymnasium.Env``, and its text environments as ours.

Importing this module registers every installed environment::

    import gymnasium
    import agentgym_rl.compat.gymnasium

    env = gymnasium.make("agentgym_rl/textcraft-v0", split="train")
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step("inventory")
"""

import string
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from agentgym_rl.envs.actions import parse_line
from agentgym_rl.envs.core import BlockingEnv, EnvSpec, Observation, Step, Task, TaskNotFound
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.registry import available
from agentgym_rl.envs.sync import make

with needs("agentgym_rl.compat.gymnasium", "gymnasium"):
    import gymnasium
    from gymnasium.spaces import Text

MAX_TEXT_CHARACTERS = 1 << 17
"""Characters of an observation or a command."""


class AnyText(Text):  # type: ignore[misc]
    """Texts in any alphabet; samples are short and of printable ASCII."""

    def __init__(self) -> None:
        super().__init__(100, min_length=0, charset=string.printable)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= MAX_TEXT_CHARACTERS


class TextGym(gymnasium.Env):  # type: ignore[misc]
    """One of our environments; observations and actions are texts, and an action is a command, not a whole response.

    ``info`` has ``actions`` (those that are possible now, or None), after a reset ``task``, ``goal`` and
    ``instruction``, and after a step what the environment tells, such as ``invalid``.

    Args:
        name: of the environment.
        split: a reset draws a task from it, by ``seed``.
        max_turns: an episode is truncated after so many actions; None is the environment's own limit.
        options: of the environment's class, such as ``style``.

    Raises:
        UnknownEnv, MissingExtra: see :func:`agentgym_rl.envs.make`.
        ValueError: there is no such split, it is empty, or ``max_turns`` is less than 1.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(
        self,
        name: str,
        split: str = "train",
        max_turns: int | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self.session = make(name, **options)
        self.indices = self.session.spec.indices(split)
        if not self.indices:
            raise ValueError(f"{name} {split} has no task; its splits: {', '.join(self.session.spec.splits)}")
        self.max_turns = self.session.spec.max_turns if max_turns is None else max_turns
        if self.max_turns < 1:
            raise ValueError(f"max_turns is {self.max_turns}; give at least 1")
        self.render_mode = render_mode
        self.observation_space = AnyText()
        self.action_space = AnyText()
        self._turns = 0
        self._seen = ""

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start the task ``options["task"]``, such as ``textcraft_12``, or one that is drawn.

        Raises:
            TaskNotFound: there is no such task.
            ValueError: there is no such option.
            EnvError: the environment failed.
        """
        super().reset(seed=seed)
        rest = dict(options or {})
        drawn = self.indices[int(self.np_random.integers(len(self.indices)))]
        given = rest.pop("task", None)
        task = self.session._task(drawn if given is None else given)
        if rest:
            raise ValueError(f"reset has no option {min(rest)!r}; its option is 'task'")
        self._turns = 0
        self._seen = self.session.reset(task)
        info = {"task": str(task), "goal": self.session.goal(task), "instruction": self.session.instruction}
        return self._seen, info | self._actions()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Carry out a command.

        Raises:
            ProtocolError: no task was started, or the episode is over.
            EnvError: the environment failed.
        """
        self._seen, reward, terminated, truncated, info = self.session.step(action)
        self._turns += 1
        truncated = not terminated and (truncated or self._turns >= self.max_turns)
        return self._seen, float(reward), terminated, truncated, info | self._actions()

    def render(self) -> str | None:
        """The last observation."""
        return self._seen if self.render_mode == "ansi" else None

    def close(self) -> None:
        self.session.close()

    def _actions(self) -> dict[str, Any]:
        return {"actions": None if self.session.actions is None else list(self.session.actions)}


class GymnasiumEnv(BlockingEnv):
    """A text environment of Gymnasium; :func:`text_env` makes the class of one."""

    make: ClassVar[Any]
    best: ClassVar[float]
    _env: Any = None

    def _reset_blocking(self, task: Task) -> Observation:
        if not any(task.index in indices for indices in self.spec.splits.values()):
            raise TaskNotFound(f"{task} is in no split of {self.spec.name}")
        if self._env is None:
            env = type(self).make()
            for space in (env.observation_space, env.action_space):
                if not isinstance(space, Text):
                    raise ValueError(f"{self.spec.name} has a space {space}; only environments of texts can be taken")
            self._env = env
        self._left = 1.0
        text, info = self._env.reset(seed=task.index)
        return Observation(text, _listed(info))

    def _step_blocking(self, action: str) -> Step:
        if not self._env.action_space.contains(action):
            return Step(Observation("Error: this is no action here."), 0.0, False, info={"invalid": True})
        text, raw, terminated, truncated, info = self._env.step(action)
        reward = min(max(float(raw) / self.best, 0.0), self._left)
        self._left -= reward
        facts = {"raw_reward": float(raw), "invalid": bool(info.get("invalid", False))}
        return Step(Observation(text, _listed(info)), reward, bool(terminated), bool(truncated), facts)

    def _close_blocking(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            env.close()

    def goal(self, task: Task) -> str:
        return f"seed {self._index(task)}"

    def difficulty(self, task: Task) -> str:
        return "any"


def text_env(
    name: str,
    id: str,
    *,
    instruction: str,
    splits: Mapping[str, Sequence[int]],
    max_turns: int,
    best: float = 1.0,
    success_above: float = 0.99,
    licence: str = "see the Gymnasium environment",
    **options: Any,
) -> type[GymnasiumEnv]:
    """The class of a text environment of Gymnasium, for the entry-point group ``agentgym_rl.envs``.

    A task is a seed of the environment. Its reward is divided by ``best``; what is below 0, and what exceeds 1 in an
    episode, is left out, and the raw reward stays in ``info["raw_reward"]``. ``info["actions"]``, a list of possible
    actions, and ``info["invalid"]`` are taken over where the environment tells them.

    Args:
        id: what ``gymnasium.make`` takes, with ``options``.
        instruction: what the agent is told first.
        splits: seeds of each split; ``train`` and ``test`` are needed.
        best: the largest return of an episode.
        success_above: an episode is a success above this share of ``best``.

    Raises:
        ValueError: ``best`` is not greater than 0.
    """
    if best <= 0:
        raise ValueError(f"best is {best:g}; give the largest return of an episode, which is greater than 0")
    spec = EnvSpec(
        name=name, instructions={"agentgym": instruction, "compact": instruction}, splits=splits, max_turns=max_turns,
        success_above=success_above, raw_reward_range=(0.0, best), read=parse_line, licence=licence,
        repeats="Gymnasium draws a game by its seed, and two seeds may draw the same",
    )  # fmt: skip
    members = {"name": name, "_spec": spec, "make": staticmethod(partial(gymnasium.make, id, **options)), "best": best}
    return type(name, (GymnasiumEnv,), members)


def _listed(info: Mapping[str, Any]) -> tuple[str, ...] | None:
    actions = info.get("actions")
    return None if actions is None else tuple(map(str, actions))


for _name in available():
    gymnasium.register(f"agentgym_rl/{_name}-v0", f"{__name__}:TextGym", kwargs={"name": _name})
