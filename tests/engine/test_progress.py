"""What a run shows in a terminal and in a pipe."""

import time
from io import StringIO

import pytest
from rich.console import Console

from agentgym_rl.engine.run import progress as module
from agentgym_rl.engine.run.progress import Progress


def shown(terminal=False, width=60):
    file = StringIO()
    return Progress(Console(file=file, width=width, force_terminal=terminal)), file


@pytest.fixture
def clock(monkeypatch):
    """Sets the time, and looks whether a line is due."""
    now = 0.0

    def at(seconds, progress=None):
        nonlocal now
        now = seconds
        if progress:
            progress.look()

    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    return at


def test_a_line_stays_one_line_and_text_as_it_is():
    progress, file = shown()
    text = "a line of [red]a run[/red] that is much longer than the pipe is wide, " * 3
    progress.say(text)
    assert file.getvalue() == f"  0:00 {text}\n"


def test_a_pipe_is_told_now_and_then_how_far_the_work_is(clock):
    progress, file = shown()
    for second in range(0, 24, 4):
        clock(second)
        progress.bar("bc: evaluate", second, 24)
        if second == 4:
            progress.say("bc 1 of 2")
        progress.look()
    assert file.getvalue().splitlines() == ["  0:04 bc 1 of 2", "  0:16 bc: evaluate: 16 of 24"]


def test_a_pipe_is_told_ever_more_rarely_that_the_same_work_goes_on(clock):
    progress, file = shown()
    progress.bar("grpo", 3, 7)
    for second in range(100):
        progress.bar("grpo", 3, 7)
        clock(second, progress)
    lines = [f"  {second // 60}:{second % 60:02d} grpo: 3 of 7 for {second} s" for second in (10, 20, 40, 80)]
    assert file.getvalue().splitlines() == lines
    progress.bar("grpo", 4, 7)
    clock(100, progress)
    assert file.getvalue().splitlines() == [*lines, "  1:40 grpo: 4 of 7"]


def test_what_is_waited_for_is_told_until_it_has_come(clock):
    progress, file = shown()
    with pytest.raises(RuntimeError, match="it failed"), progress.waiting("starting the engine"):
        clock(12, progress)
        raise RuntimeError("it failed")
    clock(60, progress)
    assert file.getvalue().splitlines() == ["  0:12 starting the engine for 12 s"]


def test_lines_come_by_themselves_until_the_end(monkeypatch):
    monkeypatch.setattr(module, "LINE_S", 0.0)
    progress, file = shown()
    with progress:
        progress.bar("grpo", 3, 7)
        while "grpo: 3 of 7" not in file.getvalue():
            time.sleep(0.01)
    assert not progress._teller.is_alive()


def test_a_terminal_shows_a_moving_bar_with_the_time():
    progress, file = shown(terminal=True)
    with progress, progress.waiting("starting the engine"):
        progress._progress.refresh()
    assert "starting the engine" in file.getvalue() and "0:00:00" in file.getvalue()
    assert "None" not in file.getvalue() and "0/" not in file.getvalue()
    assert not progress._teller.is_alive()
