"""How often, how many: numbers on the command lines of benchmarks."""

import argparse


def positive(text: str) -> int:
    """A number from 1 on, for ``type`` of an option.

    Raises:
        argparse.ArgumentTypeError: it is smaller; with 0 repeats or episodes there is nothing to measure.
        ValueError: it is no whole number.
    """
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number
