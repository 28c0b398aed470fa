"""What a log is told while long work goes on."""

import time

import pytest

from agentgym_rl.envs import progress as module
from agentgym_rl.envs.progress import Lines, progress_bar


class Told:
    """Lines with a clock that is set by hand; what they said, and when."""

    def __init__(self, monkeypatch):
        self.now, self.said = 0, []
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
        self.lines = Lines(lambda text: self.said.append((self.now, text)))

    def at(self, second):
        self.now = second
        self.lines.look()


@pytest.fixture
def told(monkeypatch):
    return Told(monkeypatch)


def test_work_that_goes_on_is_told_after_ten_seconds_of_silence(told):
    for second in range(0, 24, 4):
        told.lines.under_way(f"evaluate: {second} of 24")
        if second == 4:
            told.lines.heard()
        told.at(second)
        if second == 4:
            told.lines.heard()
    assert told.said == [(16, "evaluate: 16 of 24")]


def test_the_same_work_is_told_ever_more_rarely(told):
    for second in range(100):
        told.lines.under_way("grpo: 3 of 7")
        told.at(second)
    seconds = (10, 20, 40, 80)
    assert told.said == [(second, f"grpo: 3 of 7 for {second} s") for second in seconds]
    told.lines.under_way("grpo: 4 of 7")
    told.at(100)
    assert told.said[len(seconds) :] == [(100, "grpo: 4 of 7")]


def test_work_that_has_ended_is_not_told(told):
    told.lines.under_way("starting")
    told.lines.under_way("")
    told.at(60)
    assert told.said == []


def test_lines_come_by_themselves(monkeypatch):
    monkeypatch.setattr(module, "LINE_S", 0.0)
    said = []
    with Lines(said.append) as lines:
        lines.under_way("grpo: 3 of 7")
        while not said:
            time.sleep(0.01)
    assert said[0].startswith("grpo: 3 of 7 for ") and not lines._teller.is_alive()


@pytest.mark.parametrize(("silence", "end"), [(0.0, "  0:00 reading: 5 of 5 for 0 s\n"), (60.0, "")])
def test_the_end_is_told_where_there_was_silence(silence, end, monkeypatch, capsys):
    monkeypatch.setattr(module, "LINE_S", silence)
    with progress_bar("reading") as progress:
        progress(5, 5)
    assert capsys.readouterr().err == end
    with pytest.raises(RuntimeError), progress_bar("reading") as progress:
        progress(3, 5)
        raise RuntimeError
    assert capsys.readouterr().err == ""


def test_a_bar_without_a_total_shows_none(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar("reading"):
        pass
    assert "0/?" in capsys.readouterr().err
