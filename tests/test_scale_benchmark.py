"""How benchmarks/scale.py attributes time, and what it prints; it runs by hand, on Ray."""

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
    one = scale.Clock()
    one.spend = lambda seconds: now.__setitem__(0, now[0] + seconds)
    return one


def test_a_part_has_its_time_without_that_of_its_parts(clock):
    owner = SimpleNamespace(inner=lambda: clock.spend(2.0))
    clock.watch(owner, "inner", "verl: inner", "after")
    with clock.part("rest", "before"):
        clock.spend(1.0)
        owner.inner()
        clock.pool().submit(clock.spend, 4.0)
    assert clock.take() == {
        "before": {"rest": (1.0, 2.0)}, "after": {"verl: inner": (2.0, 4.0)}, "beside": {"rest": (4.0, 8.0)},
    }  # fmt: skip
    assert clock.take() == {}


def test_what_is_ours_is_held_against_the_bars(capsys):
    step = {
        "before": {"episodes from the queue": (1.5, 9.0), "verl: advantages, correction": (3.0, 9.0)},
        "after": {"diagnostics": (14.0, 20.0), "training workers": (99.0, 99.0)},
        "beside": {"drift metrics": (5.0, 5.0)},
    }
    found = {"steps": [step], "pause": 0.4, "loops": 2, "units": 3, "memory": {"driver": 1.0, "queue": 2.0}}
    scale.show({8192: found})
    printed = capsys.readouterr().out
    assert "2 agent-loop processes, 3 storage units" in printed
    assert "ours is 5.2% of a 300 s step (bar 5%: missed)" in printed
    assert "delay the update by 1.90 s (bar 2: met)" in printed
    assert "training workers" not in printed and "share that is verl's" in printed and "16%" in printed
