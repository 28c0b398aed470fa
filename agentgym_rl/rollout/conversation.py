"""The policy's side of an episode: messages in, responses out.

Two kinds of conversation drive the same episode loop: :class:`Scripted`, a function from messages to text (tests,
oracles, random policies), and :class:`agentgym_rl.rollout.tokens.TokenConversation`, which keeps the exact tokens of a
language model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentgym_rl.data.episode import Ending
from agentgym_rl.envs.actions import Action
from agentgym_rl.envs.bounds import encodable
from agentgym_rl.envs.core import Message, in_thread
from agentgym_rl.envs.formats import Parse

Respond = Callable[[list[Message]], str]
"""From the conversation so far to the assistant's response. May raise :class:`PolicyStopped`."""


class NoFurtherEpisode(Exception):
    """No further episode can be run: it ends the work, and the present episode has no record."""


class PolicyStopped(NoFurtherEpisode):
    """A policy has no further response."""


class ContextTooSmall(ValueError):
    """The context has no room for what an episode needs; another attempt would end alike."""


class PromptTooLong(ContextTooSmall):
    """The instruction and first observation of a task do not fit into the prompt."""


class NoResponse(Exception):
    """There is no response to this conversation: the episode ends here and counts, with the turns that it has.

    Args:
        ending: why.
        said: what the model's API says.
    """

    def __init__(self, ending: Ending, reason: str) -> None:
        super().__init__(reason)
        self.ending = ending


@dataclass(frozen=True, slots=True)
class Response:
    """One response of the model. Halves of surrogate pairs in its text are replaced (:func:`.bounds.encodable`)."""

    text: str
    span: tuple[int, int] = (0, 0)
    """Span [start, end) in the response tokens of its segment."""
    segment: int = 0
    """Number of its segment."""
    notes: str = ""
    """What the model noted when the conversation was folded just before this response."""
    log_prob: float | None = None
    aborted: bool = False
    pieces: Sequence[str] = ()
    """Text of each of its tokens; empty where tokens are not known."""
    log_probs: Sequence[float] = ()
    """Log-probability of each of its tokens when it was sampled, in nats; empty where they are not known."""
    calls: int = 1
    """Responses that the model generated to arrive at this one: 0 where it was replayed."""
    finish_reason: str | None = None
    """Why the model stopped, in the words of its API; None where it does not say."""
    counted: tuple[int, int] = (0, 0)
    """Tokens of its request and its own, as the model's API counts them; 0 where it does not."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", encodable(self.text))


def repeats(response: str, avoid: Collection[str], parse: Parse) -> bool:
    """Whether the command of a response, or the whole response where none can be read, is one of ``avoid``."""
    action = parse(response)
    return (action.command if isinstance(action, Action) else response) in avoid


class Conversation(Protocol):
    """What the episode loop needs of a model."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens before the first response; 0 where tokens are not counted."""

    @property
    def response_tokens(self) -> int:
        """Tokens from the first response on; 0 where tokens are not counted."""

    async def start(self, messages: list[Message], parse: Parse) -> None:
        """Begin with the instruction and the first observation; ``parse`` reads an action from a response.

        Raises:
            PromptTooLong: they do not fit into the prompt.
            ContextTooSmall: a response would not fit after any prompt.
        """

    async def respond(self) -> Response | None:
        """The model's next message, or ``None`` when no further token fits into the context.

        Raises:
            NoResponse: the model's API has none for this conversation.
        """

    async def observe(self, observation: str) -> bool:
        """Append an observation; false, and nothing appended, when a response to it would not fit."""

    async def restart(self, messages: list[Message]) -> bool:
        """Go on with a prompt of these messages alone; false, and nothing changed, when it does not fit."""


class Scripted:
    """A conversation whose responses come from a function of the messages so far.

    Args:
        prefix: responses that come first, without a call of the function.
        avoid: commands that the first response after the prefix should not have.
        resamples: how often at most the function is called again for another command.
        threaded: call the function in a thread, so that other episodes go on while it waits.
    """

    prompt_tokens = 0
    response_tokens = 0

    def __init__(
        self,
        policy: Respond,
        prefix: Sequence[str] = (),
        avoid: Collection[str] = (),
        resamples: int = 0,
        threaded: bool = False,
    ) -> None:
        self.policy = policy
        self.threaded = threaded
        self.prefix = prefix
        self.avoid = avoid
        self.resamples = resamples
        self.responses = 0
        self.messages: list[Message] = []

    async def start(self, messages: list[Message], parse: Parse) -> None:
        self.messages = list(messages)
        self.parse = parse

    async def respond(self) -> Response | None:
        if self.responses < len(self.prefix):
            text, calls = self.prefix[self.responses], 0
        else:
            again = self.resamples if self.responses == len(self.prefix) else 0
            text, calls = await self._ask(), 1
            while calls <= again and repeats(text, self.avoid, self.parse):
                text, calls = await self._ask(), calls + 1
        self.responses += 1
        response = Response(text, calls=calls)
        self.messages.append({"role": "assistant", "content": response.text})
        return response

    async def observe(self, observation: str) -> bool:
        self.messages.append({"role": "user", "content": observation})
        return True

    async def restart(self, messages: list[Message]) -> bool:
        self.messages = list(messages)
        return True

    async def _ask(self) -> str:
        messages = list(self.messages)
        return await in_thread(self.policy, messages) if self.threaded else self.policy(messages)
