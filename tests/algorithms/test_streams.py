"""Rows, their streams, and small functions on them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.rows import PerToken, Row, imitation, mapped, note_advantages, streams_of, whitened
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.rollout.supervised import Example


def episode(*lengths, segments=(), calls=()):
    """Turns of so many tokens, one behind the other."""
    turns = [
        Turn(response="r", action="r", observation="", reward=0.0, invalid=False, tokens=(10, 10 + length),
             segment=dict(enumerate(segments)).get(at, 0), calls=dict(enumerate(calls)).get(at, 1))
        for at, length in enumerate(lengths)
    ]  # fmt: skip
    return Episode(
        env="e", item_id="e_1", ending=Ending.TERMINATED, reward=0.0, success=False, max_turns=9, turns=turns
    )


def test_each_segment_of_a_rollout_is_a_row():
    played, examples = episode(1, 1, segments=(0, 1)), [Example([1, 2], [0.0, 1.0]), Example([3, 4], [0.0, 1.0])]
    streams = {"advantage": [1.0, 2.0]}
    assert Rollout(episode=played, segments=examples).rows(streams) == [
        Row(examples[0], streams, played, 0), Row(examples[1], streams, played, 1),
    ]  # fmt: skip
    assert Rollout(episode=played, kept=["u_0_0", "u_0_1"]).rows({}) == [
        Row("u_0_0", {}, played, 0),
        Row("u_0_1", {}, played, 1),
    ]
    assert Rollout(episode=played).rows({}) == [], "it does not count"


def test_the_streams_of_an_update():
    played, tokens = episode(1, 1), Example([1, 2, 3], [0.0, 1.0, 1.0])
    rows = [
        Row(tokens, {"advantage": 1.0, "teacher": PerToken([0.0, 1, 2])}, played),
        Row(tokens, {"advantage": [1.0, 2.0], "teacher": 0.5}, played),
    ]
    assert streams_of(rows) == {"advantage", "teacher"}


def test_a_function_of_each_number_of_a_stream():
    assert [mapped(stream, lambda value: -value) for stream in (1.0, [1.0, 2.0])] == [-1.0, [-1.0, -2.0]]
    assert isinstance(absolute := mapped(PerToken([1.0, 2.0]), abs), PerToken) and absolute == (1.0, 2.0)


def test_imitation():
    tokens = Example([1, 2, 3, 4], [0.0, 0.0, 1.0, 1.0])
    assert imitation(tokens, 0.25) == Row(tokens, {"cross_entropy": 0.25})
    assert imitation(tokens, 2.0, 0.5) == Row(tokens, {"cross_entropy": PerToken([0.0, 0.5, 2.0, 2.0])})


TURNS = st.lists(st.tuples(st.floats(-5, 5, width=32), st.integers(1, 9)), min_size=1, max_size=5)


@given(st.lists(TURNS, min_size=1, max_size=6))
def test_whitening_is_verls(drawn):
    """Over tokens; a token has the number of its turn. verl adds 1e-8 to the count of tokens, and so misses the mean of
    large numbers by a little; here it gets numbers around 0, as a shift changes nothing."""
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("verl.utils.torch_functional")
    rows = [
        Row("key", {"advantage": [value for value, _ in turns], "value": 1.0}, episode(*(size for _, size in turns)))
        for turns in drawn
    ]
    tokens = torch.tensor([value for turns in drawn for value, size in turns for _ in range(size)], dtype=torch.float64)
    if len(tokens) < 2:
        return
    theirs = functional.masked_whiten(tokens - tokens.mean(), torch.ones_like(tokens)).tolist()
    white = whitened(rows)
    each = [
        value
        for row, turns in zip(white, drawn, strict=True)
        for value, (_, size) in zip(row.streams["advantage"], turns, strict=True)
        for _ in range(size)
    ]
    assert each == pytest.approx(theirs, rel=1e-6, abs=1e-6) and all(row.streams["value"] == 1.0 for row in white)


def test_whitening_counts_a_turn_once_and_no_replayed_one():
    """One number a row is whitened as such; a turn counts in the segment that has it."""
    folded = episode(3, 1, segments=(0, 1))
    rows = [Row("a", {"advantage": [1.0, 0.0]}, folded, 0), Row("b", {"advantage": [1.0, 0.0]}, folded, 1)]
    once = whitened([Row("a", {"advantage": [1.0, 0.0]}, episode(3, 1))])
    assert [row.streams["advantage"] for row in whitened(rows)] == [once[0].streams["advantage"]] * 2
    replayed = episode(100, 2, calls=(0, 1))
    first, second = whitened([Row("a", {"advantage": 2.0}, replayed), Row("b", {"advantage": 0.0}, episode(2))])
    assert first.streams["advantage"] == -second.streams["advantage"] == pytest.approx((3 / 4) ** 0.5, rel=1e-6)
    assert whitened([]) == []


def test_advantages_are_noted_for_each_turn():
    played, other, out = episode(1, 1), episode(1, 1), episode(1, 1)
    note_advantages([Row("a", {"advantage": [0.25, 0.5]}, played), Row("b", {"advantage": -0.75}, other)])
    note_advantages([Row("c", {"cross_entropy": 1.0}, out), Row("d", {"advantage": PerToken([1.0, 2.0])}, out)])
    assert [each.advantages for each in (played, other, out)] == [[0.25, 0.5], [-0.75, -0.75], []]
