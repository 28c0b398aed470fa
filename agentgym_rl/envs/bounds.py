"""Text from outside, made fit to be stored, tokenized and shown."""


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


def cut(text: str, limit: int, mark: str = " ...") -> str:
    """The text within a number of characters, with a mark at its end where the rest is missing."""
    return text if len(text) <= limit else text[: limit - len(mark)] + mark
