"""How often, how many: numbers on the command lines of benchmarks."""

import argparse


def positive(text: str, least: int = 1) -> int:
    """A number from 1 on, for ``type`` of an option.

    Raises:
        argparse.ArgumentTypeError: it is smaller; with 0 repeats or episodes there is nothing to measure.
        ValueError: it is no whole number.
    """
    if (number := int(text)) < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return number


def some_or_none(text: str) -> int:
    """As :func:`positive`, or 0."""
    return positive(text, 0)
