"""Calls in a forked process."""

import os
import warnings
from collections.abc import Callable
from multiprocessing import get_context

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")


def in_a_fork(call: Callable[[], None]) -> int | None:
    """The exit status of a forked process that makes a call; negative where it had to be killed after 30 s."""
    child = get_context("fork").Process(target=call)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        child.start()
    child.join(30)
    child.kill()
    child.join()
    return child.exitcode
