"""A language model that compares answers, behind an OpenAI-compatible interface."""

import re
from pathlib import Path

from agentgym_rl.envs.completions import Meaning, read
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.envs.endpoint import Endpoint
from agentgym_rl.envs.tables import load

SECONDS = 60.0
"""Most for an answer."""

_SAID = (
    (r"\bNOT (?:\w+ )?CORRECT\b", "INCORRECT"),
    (r"\bPARTIALLY CORRECT\b", "PARTIAL"),
    (r"\bNOT (?:\w+ )?SAME\b", "DIFFERENT"),
)
"""Words in place of a verdict that end with another one."""

_PROMPTS = load(Path(__file__).with_suffix(".toml"), dict[str, str])


class OpenAIJudge:
    """A model behind an OpenAI-compatible interface. The prompts are not WebArena's, the verdicts are.

    Args:
        url: such as ``http://127.0.0.1:8000/v1/chat/completions``, which is also the default path.
        token: sent with each request, if there is one.

    Raises:
        ValueError: the address is none.
    """

    def __init__(self, url: str, model: str, token: str | None = None) -> None:
        self._endpoint = Endpoint(url, "/v1/chat/completions", SECONDS, "judge_url", token)
        self._model = model

    async def agrees(self, question: str, reference: str, answer: str) -> bool:
        """Whether an answer means the same as the reference; in part does not suffice.

        Raises:
            EnvUnavailable, EnvTimeout, ProtocolError: see :meth:`.Endpoint.post`; or there is no verdict.
        """
        verdict = await self._ask(
            _PROMPTS["answer"].format(question, reference, answer), ("CORRECT", "PARTIAL", "INCORRECT")
        )
        return verdict == "CORRECT"

    async def same_reason(self, task: str, reason: str, reported: str) -> bool:
        """Whether a task was reported as impossible for the right reason; raises as :meth:`agrees`."""
        return await self._ask(_PROMPTS["reason"].format(task, reason, reported), ("SAME", "DIFFERENT")) == "SAME"

    async def _ask(self, prompt: str, verdicts: tuple[str, ...]) -> str:
        """The last of the verdicts in the model's answer."""
        messages = [{"role": "user", "content": prompt}]
        answer = read(200, await self._endpoint.post({"model": self._model, "messages": messages, "temperature": 0}))
        if answer.meaning is not Meaning.REPLY:
            raise EnvUnavailable(f"the judge at {self._endpoint.url} gave no reply: {answer.text}")
        said: str = answer.text.upper()
        for pattern, verdict in _SAID:
            said = re.sub(pattern, verdict, said)
        matches: list[str] = [word for word in re.findall(r"[A-Z]+", said) if word in verdicts]
        if not matches:
            start = answer.text[:80]
            raise EnvUnavailable(f"the judge at {self._endpoint.url} said none of {', '.join(verdicts)}: {start!r}")
        return matches[-1]
