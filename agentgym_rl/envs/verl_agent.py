"""The prompts of verl-agent's ALFWorld and WebShop, one a turn.

Their words and order are facts of verl-agent (https://github.com/langfengQ/verl-agent at d0b9724, Apache-2.0, Nanyang
Technological University): ``agent_system/environments/{prompts/*.py,env_manager.py}`` and ``memory/memory.py`` there.
The sentences of an environment are in its ``env.toml``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agentgym_rl.envs.core import Observation, ProtocolError


@dataclass(frozen=True, kw_only=True)
class PromptTexts:
    """The table ``verl_agent`` of an ``env.toml``: templates with what :class:`TurnPrompt` puts into them."""

    first: str
    """The prompt before the first action, and one that would be too long otherwise."""
    later: str
    action: str
    """Of each possible action."""
    between: str
    """Between two of them."""
    longest: int | None = None
    """Most characters of a prompt with earlier turns; None has no limit."""


@dataclass(frozen=True, kw_only=True)
class TurnPrompt:
    """Writes a turn's whole prompt, see :data:`agentgym_rl.envs.core.Prompt`."""

    texts: PromptTexts
    task: Callable[[str], str]
    """What is to be done, from the first observation."""
    seen: Callable[[str], str] = str
    """An observation as prompts show it."""
    listed: Callable[[Sequence[str]], Iterable[str]] = iter
    """The possible actions as prompts list them."""

    def __call__(self, observations: Sequence[Observation], commands: Sequence[str], keep: int) -> str:
        """The prompt. Raises ProtocolError: the environment does not list what is possible, as some servers do not."""
        possible = next((seen.actions for seen in reversed(observations) if seen.actions is not None), None)
        if possible is None:
            raise ProtocolError("style=verl_agent shows the possible actions, which this environment does not list")
        shown = [self.seen(observation.text) for observation in observations]
        turns = [*enumerate(zip(shown, commands, strict=False), start=1)][-keep:]
        parts = {
            "task": self.task(observations[0].text),
            "observation": shown[-1],
            "actions": self.texts.between.join(self.texts.action.format(action) for action in self.listed(possible)),
            "taken": len(commands),
            "step": len(commands) + 1,
            "kept": len(turns),
            "history": "\n".join(f"[Observation {at}: '{seen}', Action {at}: '{did}']" for at, (seen, did) in turns),
        }
        prompt = (self.texts.later if commands else self.texts.first).format(**parts)
        longest = self.texts.longest
        return self.texts.first.format(**parts) if longest is not None and len(prompt) > longest else prompt
