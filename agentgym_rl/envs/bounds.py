"""Text from outside, made fit to be stored, tokenized and shown."""

from typing import Any


def encodable(text: str) -> str:
    """The text as UTF-8 can hold it: the halves of a surrogate pair are joined, a half without its other is U+FFFD.

    Half a pair comes from an escape such as ``\\ud83d`` in JSON or code, and fails wherever text is encoded.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def encodable_json(value: Any) -> Any:
    """A value of JSON whose texts are :func:`encodable`.

    Raises:
        RecursionError: it is nested too deeply.
    """
    match value:
        case str():
            return encodable(value)
        case list():
            return [encodable_json(item) for item in value]
        case dict():
            return {encodable_json(key): encodable_json(item) for key, item in value.items()}
    return value


def cut(text: str, limit: int, mark: str = " ...") -> str:
    """The text within a number of characters, with a mark at its end where the rest is missing."""
    return text if len(text) <= limit else text[: limit - len(mark)] + mark
