"""What the benchmarks of servers count, without a server."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import agentgym_texts

from agentgym_rl.envs.core import Observation, Step, Task
from agentgym_rl.envs.probe import Walk


def test_texts_behind_the_servers_end_are_not_the_same():
    steps = [Step(Observation(text), 0.0, False) for text in "bc"]
    ours = Walk(Task("maze", 0), Observation("a"), ["left", "right"], steps)
    agreement = agentgym_texts.Agreement()
    agreement.add(ours, ["a", "b"], [0.0])
    assert (agreement.equal, agreement.texts, agreement.rewards, agreement.steps) == (2, 3, 1, 2)
    assert agreement.first == f"maze_0 after 'right'\n--- there\n{agentgym_texts.ENDED}\n--- here\nc"


@pytest.mark.parametrize(("texts", "rewards", "status"), [(3, 2, 0), (2, 2, 1), (3, 1, 1)])
def test_what_differs_from_the_server_is_in_the_status(texts, rewards, status, monkeypatch):
    async def compared(*asked):
        return agentgym_texts.Agreement(texts=3, equal=texts, steps=2, rewards=rewards)

    monkeypatch.setattr(agentgym_texts, "compare", compared)
    monkeypatch.setattr(sys, "argv", ["agentgym_texts.py", "maze", "http://127.0.0.1:1", "--tasks", "0:1"])
    with pytest.raises(SystemExit) as ended:
        agentgym_texts.main()
    assert ended.value.code == status


def test_slow_clients_that_stay_are_told():
    hostile_clients = pytest.importorskip("hostile_clients")
    assert hostile_clients.end("readers", 0, 30.4) == "readers gone after 30 s"
    assert hostile_clients.end("readers", 3, 0.0) == "3 readers still there"
