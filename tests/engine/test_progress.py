"""What a run shows in a terminal and in a pipe."""

from io import StringIO

import pytest
from rich.console import Console

from agentgym_rl.engine.run.progress import Progress
from agentgym_rl.envs import progress as lines


def shown(terminal=False, width=60):
    file = StringIO()
    return Progress(Console(file=file, width=width, force_terminal=terminal)), file


def test_a_line_stays_one_line_and_text_as_it_is():
    progress, file = shown()
    text = "a line of [red]a run[/red] that is much longer than the pipe is wide, " * 3
    progress.say(text)
    assert file.getvalue() == f"  0:00 {text}\n"


def test_a_pipe_is_told_how_far_the_work_is_and_what_is_waited_for(monkeypatch):
    now = 0.0
    monkeypatch.setattr(lines.time, "monotonic", lambda: now)
    progress, file = shown()
    with pytest.raises(RuntimeError, match="it failed"), progress.waiting("starting the engine"):
        now = 12.0
        progress._lines.look()
        raise RuntimeError("it failed")
    for now in (30.0, 60.0, 65.0):
        progress.bar("bc: evaluate", int(now), 90)
        if now == 60:
            progress._lines.look()
            progress.say("bc 1 of 2")
        progress._lines.look()
    assert file.getvalue().splitlines() == [
        "  0:12 starting the engine for 12 s", "  0:30 bc: evaluate: 30 of 90", "  1:00 bc: evaluate: 60 of 90",
        "  1:00 bc 1 of 2",
    ]  # fmt: skip


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_shows_a_moving_bar_with_the_time(terminal):
    progress, file = shown(terminal)
    with progress, progress.waiting("starting the engine"):
        progress._progress.refresh()
    shows = file.getvalue()
    assert ("starting the engine" in shows, "0:00:00" in shows) == (terminal, terminal)
    assert "None" not in shows and "0/" not in shows
