"""Whether an answer is the expected one, however it is written."""

from __future__ import annotations

import ast
import json
import math
import re
import unicodedata
from typing import Any

_NUMBER = re.compile(r"\$?\s*([-+]?\d[\d,]*\.?\d*(?:e[-+]?\d{1,3})?)\s*[^\d]{0,20}", re.IGNORECASE)
"""A number, thousands apart by commas or not, with a currency sign before it or a unit behind."""

_WORDS = {"true": "yes", "false": "no"}


def matches(expected: Any, given: Any, tolerance: float = 0.0) -> bool:
    """Whether an answer says what is expected.

    * Numbers may differ by ``tolerance`` (absolute, beside rounding errors) and be written as text, with a unit.
    * Lists are compared as sets and may be written as text: as JSON or Python, or separated by commas. A single
      value is as good as a list of it.
    * Text is compared without regard to case, spaces, quotes around it and a full stop behind it.
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
        return number is not None and math.isclose(expected, number, rel_tol=1e-9, abs_tol=tolerance + 1e-9)
    text = _plain(given)
    return _plain(expected) in (text, _WORDS.get(text))


def _number(given: Any) -> float | None:
    if isinstance(given, bool):
        return None
    if isinstance(given, (int, float)):
        return _float(given)
    found = _NUMBER.fullmatch(_text(given))
    return None if found is None else _float(found[1].replace(",", ""))


def _float(number: str | int | float) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None


def _lists(given: Any) -> list[list[Any]]:
    """The lists an answer may mean."""
    if isinstance(given, list):
        return [given]
    text = _text(given)
    if text.startswith("["):
        for read in (json.loads, ast.literal_eval):
            try:
                found = read(text)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            return [found] if isinstance(found, list) else []
    return [[given], text.split(",")]


def _plain(value: Any) -> str:
    """A value as text that is equal for what counts as the same."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = _float(value)
        return f"{number:.9g}" if number is not None else str(number)
    return _text(value)


def _text(value: Any) -> str:
    text = " ".join(unicodedata.normalize("NFKC", str(value)).casefold().split())
    return text.strip("\"'`").removesuffix(".").strip("\"'` ")
