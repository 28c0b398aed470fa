"""What a run shows in a terminal and in a pipe."""

from io import StringIO

import pytest
from rich.console import Console

from agentgym_rl.engine.run import progress as module
from agentgym_rl.engine.run.progress import Progress


def shown(terminal=False, width=60):
    file = StringIO()
    return Progress(Console(file=file, width=width, force_terminal=terminal)), file


def test_a_line_stays_one_line_and_text_as_it_is():
    progress, file = shown()
    text = "a line of [red]a run[/red] that is much longer than the pipe is wide, " * 3
    progress.say(text)
    assert file.getvalue() == f"  0:00 {text}\n"


def test_what_is_waited_for_is_told_with_seconds(monkeypatch):
    monkeypatch.setattr(module, "LINE_S", 0.01)
    progress, file = shown()
    with progress, progress.waiting("starting the engine"):
        while file.getvalue().count("\n") < 3:
            pass
    lines = file.getvalue().splitlines()
    assert lines[0] == "  0:00 starting the engine: 0 s" and len(set(lines)) == 1
    with pytest.raises(RuntimeError, match="it failed"), progress.waiting("more"):
        raise RuntimeError("it failed")


def test_a_pipe_is_told_now_and_then_how_far_the_work_is(monkeypatch):
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    progress, file = shown()
    for now in range(0, 24, 4):
        progress.bar("bc: evaluate", now, 24)
        if now == 4:
            progress.say("bc 1 of 2")
    assert file.getvalue().splitlines() == ["  0:04 bc 1 of 2", "  0:16 bc: evaluate: 16 of 24"]


def test_a_terminal_shows_a_moving_bar_with_the_time():
    progress, file = shown(terminal=True)
    with progress, progress.waiting("starting the engine"):
        progress._progress.refresh()
    assert "starting the engine" in file.getvalue() and "0:00:00" in file.getvalue()
    assert "None" not in file.getvalue() and "0/" not in file.getvalue()
