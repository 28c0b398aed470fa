"""What a model was asked to write, as JSON."""

from __future__ import annotations

from typing import Any

from agentgym_rl.envs.bounds import encodable_json
from agentgym_rl.envs.tables import parse_json


class Unreadable(ValueError):
    """An answer that does not hold what was asked for."""


def json_in(answer: str, opening: str, closing: str, what: str) -> Any:
    """The JSON value from the first ``opening`` to the last ``closing`` after what a model thought.

    Raises:
        Unreadable: there is none.
    """
    answer = answer.rpartition("</think>")[2]
    start, end = answer.find(opening), answer.rfind(closing)
    if not 0 <= start < end:
        raise Unreadable(f"there is no JSON {what}")
    try:
        return encodable_json(parse_json(answer[start : end + 1], f"the {what}"))
    except ValueError as error:
        raise Unreadable(str(error)) from error
    except RecursionError as error:
        raise Unreadable(f"the {what}: JSON nested too deeply") from error
