"""How benchmarks/scale.py attributes time, and what it prints; it runs by hand, on Ray."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("psutil")
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import scale


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(scale.time, "process_time", lambda: now[0])
    monkeypatch.setattr(scale.time, "perf_counter", lambda: 2 * now[0])
    clock = scale.Clock()
    clock.spend = lambda seconds: now.__setitem__(0, now[0] + seconds)
    return clock


def test_a_part_has_its_time_without_that_of_its_parts(clock):
    owner = SimpleNamespace(inner=lambda: clock.spend(2.0))
    clock.watch(owner, "inner", "verl: inner", "after")
    with clock.part("rest", "before"):
        clock.spend(1.0)
        clock.pool().submit(clock.spend, 4.0)
        clock.spend(0.5)
        owner.inner()
        clock.spend(0.25)
    assert clock.take(0.0) == {
        "before": {"rest": (1.5, 3.0)}, "beside": {"rest": (4.0, 8.0)},
        "after": {"verl: inner": (2.0, 4.0), "rest": (0.25, 0.5)},
    }  # fmt: skip
    assert clock.take(0.0) == {}


def test_a_simulated_episode_has_the_rows_of_a_real_one():
    """Without them the benchmark waits for ever."""
    pytest.importorskip("verl")
    import simulated

    from agentgym_rl.engine.verl.agent_loops import rows
    from agentgym_rl.rollout.recorder import EpisodeRecorder

    loop = simulated.SimulatedLoop(EpisodeRecorder(), seed=0)
    prompt = {"item_id": "textcraft_1", "tags": {"round": 1}, "global_steps": 3}
    ended = asyncio.run(loop.run({}, sample=0, **prompt))
    keys, _, tags = rows("7", 3, [ended])
    assert keys == ["7_0_0"] and tags[0]["own_tokens"] == simulated.TURNS * 100
    episode = ended[-1].extra_fields["episode"]
    assert (episode.item_id, episode.model_step, episode.tags) == ("textcraft_1", 3, {"round": 1})


def test_what_follows_the_last_arrival_delays_the_update(clock):
    with clock.part("look", "generation"):
        clock.spend(1.0)
    with clock.part("pause"):
        clock.spend(2.0)
    with clock.part("look"):
        clock.spend(3.0)
    assert clock.take(arrived=5.0) == {
        "generation": {"look": (1.0, 2.0)}, "before": {"pause": (2.0, 1.0), "look": (3.0, 6.0)},
    }  # fmt: skip


def test_what_is_ours_is_held_against_the_bars(capsys):
    step = {
        "generation": {"look at the queue": (1.0, 1.0), "pause": (50.0, 50.0), "verl: submit tasks": (2.0, 2.0)},
        "before": {
            "episodes from the queue": (1.5, 9.0), "verl: advantages, correction": (3.0, 9.0), "pause": (7.0, 0.25),
            "training workers": (99.0, 99.0),
        },
        "beside": {"ratios of tokens": (5.0, 5.0)},
        "after": {"diagnostics": (8.0, 20.0)},
    }  # fmt: skip
    found = {"steps": [step], "pause": 0.4, "loops": 2, "units": 3, "memory": {"driver": 1.0, "queue": 2.0}}
    scale.show({8192: found})
    printed = capsys.readouterr().out
    assert "2 agent-loop processes, 3 storage units" in printed
    assert "both are 6.8% of a 300 s step (bar 5%: missed)" in printed and "is 9.8% longer by it" in printed
    assert "delay the update by 1.75 s (bar 2: met)" in printed and "on the clock by 9.25 s (bar 2: missed)" in printed
    assert "training workers" not in printed and "verl's" in printed and "5.00 [5.00, 5.00]" in printed
