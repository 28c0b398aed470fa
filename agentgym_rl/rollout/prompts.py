"""What the user's messages of an episode say: each observation or, in some wordings, the whole prompt of a turn."""

from __future__ import annotations

from agentgym_rl.data.episode import prefaced
from agentgym_rl.envs.core import Message, Observation, TextEnv
from agentgym_rl.rollout.settings import Context, RolloutSettings


class Prompts:
    """The user's messages of one episode.

    Args:
        preface: text of the policy's before the first observation or, in wordings with a prompt a turn, before each.

    Raises:
        ValueError: ``rollout.context`` is for another wording than the environment's.
    """

    def __init__(self, env: TextEnv, settings: RolloutSettings, preface: str = "") -> None:
        self._preface = preface
        self._write = env.spec.prompt
        self._keep = settings.keep_turns
        self._observations: list[Observation] = []
        self._commands: list[str] = []
        if self.whole != (settings.context is Context.recent):
            raise ValueError(
                f"rollout.context={settings.context} does not go with {env.spec.name} in style={env.style}; set "
                f"rollout.style={env.style}, and leave out rollout.context"
            )

    @property
    def whole(self) -> bool:
        """Whether each message is the whole prompt of its turn, which nothing precedes."""
        return self._write is not None

    def message(self, observation: Observation, command: str | None = None) -> Message:
        """The next message.

        Args:
            command: what led to the observation: None for the first one, "" for a response that could not be read.

        Raises:
            ProtocolError: the wording shows the possible actions, and the environment does not list them.
        """
        self._observations.append(observation)
        if command is not None:
            self._commands.append(command)
        if self._write is not None:
            text = prefaced(self._preface, self._write(self._observations, self._commands, self._keep))
        else:
            text = observation.text if command is not None else prefaced(self._preface, observation.text)
        return {"role": "user", "content": text}
