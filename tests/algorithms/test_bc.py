"""What a pass of cloning learns."""

from collections import Counter
from types import SimpleNamespace

import pytest

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.bc import Cloning, CloningConfig
from agentgym_rl.rollout.supervised import Example


def rollouts(first, count):
    return [Rollout(episode=None, segments=[Example([number], [1.0])]) for number in range(first, first + count)]


def learned(general, passes=1, **keys):
    """The first token of each row of each pass."""
    seen = []
    run = SimpleNamespace(
        seed=1, demonstrations=rollouts(0, 6), general=general, observation_weight=0.0, learn_invalid=True,
        learn=lambda rows, *_, **__: seen.append([row.segment.input_ids[0] for row in rows]),
    )  # fmt: skip
    for number in range(passes):
        Cloning(CloningConfig(epochs=passes, **keys)).unit(run, number)
    return seen


@pytest.mark.parametrize(("share", "general"), [(0.25, 2), (0.5, 6), (0.8, 24)])
def test_general_conversations_have_their_share_of_a_pass(share, general):
    first, second = learned(rollouts(100, 9), passes=2, mix_share=share)
    for rows in (first, second):
        assert rows[:6] == [*range(6)] and len(rows) == 6 + general
        often = Counter(rows[6:])
        assert max(often.values()) - min(often[number] for number in range(100, 109)) <= 1
    assert first != second, "each pass draws its own"
    assert [first, second] == learned(rollouts(100, 9), passes=2, mix_share=share), "a resumed run the same"


def test_nothing_is_mixed_in_without_a_file():
    assert learned([]) == [[*range(6)]]


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5])
def test_a_share_is_between_0_and_1(share):
    with pytest.raises(ValueError, match="mix_share must be between 0 and 1"):
        CloningConfig(mix_share=share)
