"""What a panel shares with other tasks: by id, and by content under another id."""

import asyncio

import pytest

from agentgym_rl.data.overlap import Games, Overlap
from agentgym_rl.envs import make

pytestmark = pytest.mark.usefixtures("toys")


@pytest.mark.parametrize(
    ("env", "panel", "others", "shared"),
    [
        ("counter", [40, 41, 42], range(40), 0),
        ("counter", [38, 39, 40, 41], range(40), 2),  # by id
        ("repeating", [40, 41, 42], [0, 3], 1),  # 42 counts to 1, as 0 and 3 do
        ("repeating", [0, 40, 41, 42], [0, 1], 3),
        ("repeating", [40, 41], [], 0),
        ("vast", [300_000], range(300_000), 0),
    ],
)
def test_tasks_are_shared_by_id_or_by_content(env, panel, others, shared):
    assert asyncio.run(Games(make(env)).shared(panel, others)) == shared


def test_ids_alone_are_compared_where_contents_take_too_long():
    assert asyncio.run(Games(make("repeating"), compared=0).shared([0, 42], [0, 1])) == 1


def test_an_overlap_is_told_in_words():
    assert (
        str(Overlap(tasks=12, training=3, demonstrations=0))
        == "3 of 12 tasks are training tasks, 0 have demonstrations"
    )
    assert Overlap(12, 0, 1) and not Overlap(12, 0, 0)
