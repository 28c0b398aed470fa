"""Responses in each action format: how they are read, written and explained to the model.

ReAct is defined by the environment (:attr:`EnvSpec.read`, :attr:`EnvSpec.write`), tags by verl-agent
(:func:`~agentgym_rl.envs.actions.parse_tags`). Function calling and code as action
carry the same commands as calls of the environment's tools. They are written in AgentGym's syntax; a function call is
read in that of other models, too (:mod:`agentgym_rl.envs.calls`).
"""

import io
import json
import logging
import re
import tokenize
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from agentgym_rl.envs.actions import Action, ActionFormat, InvalidAction, format_tags, parse_tags
from agentgym_rl.envs.bounds import cut, encodable
from agentgym_rl.envs.calls import Call, read_call
from agentgym_rl.envs.core import EnvSpec, Message, Style
from agentgym_rl.envs.tools import BadCall, read_code, to_call, to_command, write_code

log = logging.getLogger(__name__)

END_OF_THINKING = "</think>"
"""What models that think write before their response."""
MAX_RESPONSE_CHARACTERS = 1 << 17
"""Characters of a response, without its thinking, that are read; a longer one is an invalid action."""
ECHO = 1000
"""Characters of the observation after a response that cannot be read, which may repeat parts of it."""
BUG = "Error: the reply could not be read."
CALLS = (ActionFormat.FUNCTION_CALLING, ActionFormat.CODE_AS_ACTION)
"""Formats that call the environment's tools."""

Parse = Callable[[str], Action | InvalidAction]
"""From a response to an action."""


def reader(spec: EnvSpec, action_format: ActionFormat) -> Parse:
    """The parser of responses in a format. It raises nothing, whatever a response is (:func:`guarded`).

    What a model thinks before ``</think>`` is no part of its action, but where the environment's own wording says so.

    Raises:
        ValueError: the environment has no tools to call, or its wording asks for tags.
    """
    _check(spec, action_format)
    parse: Parse = spec.read
    if action_format is ActionFormat.TAGS and spec.prompt is None:
        parse = parse_tags
    elif action_format in CALLS:
        parse = partial(_read_call if action_format is ActionFormat.FUNCTION_CALLING else _read_code, spec)
    with_thinking = action_format not in CALLS and END_OF_THINKING in write(spec, action_format, "act", "so")

    def read(response: str) -> Action | InvalidAction:
        answer = response if with_thinking else response.rpartition(END_OF_THINKING)[2]
        if len(answer) > MAX_RESPONSE_CHARACTERS:
            return InvalidAction(
                f"Error: the reply has {len(answer)} characters; at most {MAX_RESPONSE_CHARACTERS} are read."
            )
        return parse(answer)

    return guarded(read)


def guarded(parse: Parse) -> Parse:
    """A parser that raises nothing and returns text of bounded length that can be encoded.

    An exception of ``parse`` is a bug of it; it is logged, and the response is an invalid action with a ``fault``.
    """

    def read(response: str) -> Action | InvalidAction:
        try:
            action = parse(encodable(response))
        except Exception as error:  # one response must not end a run
            log.exception("a bug: the parser failed on %r", cut(response, ECHO))
            return InvalidAction(BUG, fault=f"{type(error).__name__}: {cut(encodable(str(error)), ECHO)}")
        if isinstance(action, InvalidAction):
            return replace(action, observation=cut(encodable(action.observation), ECHO))
        return replace(action, command=encodable(action.command), thought=encodable(action.thought))

    return read


def write(spec: EnvSpec, action_format: ActionFormat, command: str, thought: str = "") -> str:
    """The response that carries a command.

    Raises:
        ValueError: the environment has no tools to call, or none that gives the command, or its wording asks for tags.
    """
    _check(spec, action_format)
    if action_format is ActionFormat.TAGS:
        return format_tags(command, thought)
    if action_format is ActionFormat.REACT:
        return spec.write(command, thought)
    if action_format is ActionFormat.FUNCTION_CALLING:
        return str(Call(*to_call(spec.tools, command), thought))
    comment = "".join(f"# {line}\n" for line in thought.splitlines())
    return f"```python\n{comment}{write_code(spec.tools, command)}\n```"


def opening(spec: EnvSpec, style: Style, action_format: ActionFormat) -> list[Message]:
    """The messages that precede the first observation, with the format explained.

    Raises:
        ValueError: the environment has no tools to call, or its wording asks for tags.
    """
    _check(spec, action_format)
    start = spec.conversation_start(style)
    if start and action_format is not ActionFormat.REACT:
        start[0] = {**start[0], "content": f"{start[0]['content']}\n\n{_explain(spec, action_format)}"}
    return start


def _check(spec: EnvSpec, action_format: ActionFormat) -> None:
    if action_format in spec.action_formats:
        return
    why = "describes no tools" if spec.prompt is None else "asks for tags in its prompts"
    raise ValueError(f"environment {spec.name!r} {why}, so action_format can only be react or tags")


def _explain(spec: EnvSpec, action_format: ActionFormat) -> str:
    if action_format is ActionFormat.TAGS:
        return (
            "Instead of the form above, answer with your reasoning within <think> </think> tags, then your action "
            "within <action> </action> tags."
        )
    if action_format is ActionFormat.FUNCTION_CALLING:
        listed = "\n".join(json.dumps(tool.schema, ensure_ascii=False) for tool in spec.tools)
        return (
            f"Instead of writing actions as text, call these functions:\n{listed}\n"
            'Answer with one JSON object: {"thought": "...", "function_name": "...", "arguments": {...}}'
        )
    listed = "\n\n".join(tool.signature for tool in spec.tools)
    return (
        f"Instead of writing actions as text, call these functions:\n```python\n{listed}\n```\n"
        "Answer with one block of Python code: your thought as a comment, then one call with literal arguments."
    )


def _read_call(spec: EnvSpec, response: str) -> Action | InvalidAction:
    try:
        call = read_call(response)
        return Action(to_command(spec.tools, call.name, call.arguments, call.texts), call.thought)
    except BadCall as error:
        return InvalidAction(f"Error: {error}")


_BLOCK = re.compile(r"```(?:python)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)


def _read_code(spec: EnvSpec, response: str) -> Action | InvalidAction:
    blocks = _BLOCK.findall(response)
    if len(blocks) > 1:
        return InvalidAction(f"Error: expected one block of code per reply, found {len(blocks)}.")
    code = blocks[0] if blocks else response
    try:
        return Action(read_code(spec.tools, code), _comments(code))
    except BadCall as error:
        return InvalidAction(f"Error: {error}")


def _comments(code: str) -> str:
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    try:
        return "\n".join(token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT)
    except (tokenize.TokenError, SyntaxError):  # it takes less than the parser does, such as a lone carriage return
        return ""
