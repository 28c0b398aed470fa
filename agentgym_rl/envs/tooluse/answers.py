"""Compares an answer with the expected one, in any notation."""

import json
import math
import re
import unicodedata
from typing import Any

from agentgym_rl.envs.tools import literal

_NUMBER = re.compile(
    r"\$?\s*([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:e[-+]?\d{1,3})?)\s*[^\d]{0,20}", re.IGNORECASE
)
"""A number, with or without commas between thousands, a currency sign before it and a unit after it."""

_MINUS = {0x2212: "-"}
"""The sign of typesetters."""

_WORDS = {"true": "yes", "false": "no"}


def matches(expected: Any, given: Any, tolerance: float = 0.0) -> bool:
    """Whether an answer is the expected one.

    * Numbers may differ by ``tolerance`` (absolute; if the expected one is no whole number, in addition to rounding
      errors) and be text with a unit.
    * Lists are compared as sets and may be text: JSON, Python or values with commas between them. A single value
      equals a list of it.
    * Text is compared without case, additional spaces, quotes around it and a full stop after it.
    * Yes and no may be truth values.
    """
    if isinstance(expected, list):
        return any({_plain(item) for item in expected} == {_plain(item) for item in items} for items in _lists(given))
    if isinstance(given, list):
        return len(given) == 1 and matches(expected, given[0], tolerance)
    if isinstance(expected, bool):
        expected = "yes" if expected else "no"
    if isinstance(expected, (int, float)):
        number = _number(given)
        relative = 1e-9 if isinstance(expected, float) else 0.0
        return number is not None and math.isclose(expected, number, rel_tol=relative, abs_tol=tolerance + 1e-9)
    text = _plain(given)
    return _plain(expected) in (text, _WORDS.get(text))


def _number(given: Any) -> float | None:
    if isinstance(given, bool):
        return None
    if isinstance(given, (int, float)):
        return _float(given)
    match = _NUMBER.fullmatch(_text(given))
    return None if match is None else _float(match[1].replace(",", ""))


def _float(number: str | int | float) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None


def _lists(given: Any) -> list[list[Any]]:
    """The possible readings of an answer as a list."""
    if isinstance(given, list):
        return [given]
    text = _text(given)
    if text.startswith("["):
        for read in (json.loads, literal):
            try:
                values = read(text)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue
            return [values] if isinstance(values, list) else []
    return [[given], text.split(",")]


def _plain(value: Any) -> str:
    """A value as text; equal values have equal texts."""
    if isinstance(value, float):
        return f"{value:.9g}" if value % 1 else str(int(value))
    if isinstance(value, int) and _float(value) is None:
        return hex(value)  # Python prints no decimal number of thousands of digits
    return _text(value)


def _text(value: Any) -> str:
    text = " ".join(unicodedata.normalize("NFKC", str(value)).translate(_MINUS).casefold().split())
    return text.strip("\"'`").removesuffix(".").strip("\"'` ")
