"""Command lines that are put together of defaults and what changes them."""


def once(*words: str) -> list[str]:
    """The words, of a key with several values the last one: ``train`` refuses such a key."""
    return [*{word if word[0] in "+-" else word.partition("=")[0]: word for word in words}.values()]
