"""Numbers that benchmarks are given, how often and how many, and those that they print."""

import argparse
from collections.abc import Sequence
from statistics import median


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


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Median, least and most."""
    return f"{median(values):.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"
