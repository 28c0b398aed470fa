"""Hostile replies for every parser and every environment; ``benchmarks/fuzz.py`` is the long version."""

import asyncio
import sys
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import swept

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import fuzz

from agentgym_rl.envs import available
from agentgym_rl.envs.formats import MAX_RESPONSE_CHARACTERS
from agentgym_rl.envs.tools import LONGEST_CODE

PARSERS = fuzz.parsers()
ELSEWHERE = ("sciworld", "harness", "mcp", "miniwob", "openenv", "webarena")
HERE = [name for name in available() if name not in ELSEWHERE]
SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=swept(15), deadline=None)
@given(seed=SEEDS, text=st.text(st.characters(), max_size=50))
def test_no_reply_breaks_a_parser(name, seed, text):
    rng = Random(seed)
    for parse, replies in PARSERS[name]:
        for reply in (text, fuzz.hostile(rng, replies), fuzz.hostile(rng, [*replies, text])):
            assert fuzz.wrong_action(parse(reply)) is None, reply


@pytest.mark.parametrize("name", HERE)
@settings(max_examples=3, deadline=None)
@given(seed=SEEDS)
def test_no_action_breaks_an_environment(name, seed):
    report = asyncio.run(fuzz.fuzz_env(name, 60, 30, seed))
    assert report.faults == {} and report.calls


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("piece", ["a,", "Action: ", " ", "Thought: a", "{", "<answer>", "```sql", "```\n", "\n", "(-"])
def test_the_longest_replies_are_read_in_time(name, piece):
    """A parser that looks at each character more than a few times would take minutes."""
    parse, replies = PARSERS[name][0]
    for size in (LONGEST_CODE, MAX_RESPONSE_CHARACTERS):
        for reply in ((piece * size)[:size], replies[0] + (piece * size)[: size - len(replies[0])]):
            begun = time.thread_time()
            assert fuzz.wrong_action(parse(reply)) is None
            assert time.thread_time() - begun < 2


def test_growth_is_that_of_the_second_half_however_far_apart_it_was_measured():
    steady = [(calls, 1_000 + 3 * calls) for calls in (500, 512, 525, 1_000, 2_000)]
    assert fuzz.Report("x", memory=[*((calls, 9_999) for calls in range(5)), *steady]).slope == pytest.approx(3)
    assert fuzz.Report("x", memory=[(0, 1_000)]).slope == 0


def test_a_report_shows_what_goes_wrong():
    async def use(reply):
        if reply == "b":
            raise KeyError(reply)
        return "odd" if reply == "c" else None

    replies = iter("abcb")
    report = asyncio.run(fuzz.drive(fuzz.Report("x"), lambda: next(replies), use, 4, 60))
    assert (report.calls, report.faults) == (4, {"KeyError: 'b'": "b", "odd": "c"})
    report.memory = [(100 * place, size) for place, size in enumerate([1000, 1000, 1000, 1100, 1200, 1300])]
    assert report.slope == pytest.approx(1.0)
