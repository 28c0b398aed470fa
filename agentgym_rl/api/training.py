"""A run in one call."""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

from agentgym_rl.api.runs import RunData, load
from agentgym_rl.envs.extras import needs

_PLAIN = re.compile(r"(?!(?:null|true|false|nan|inf)$)[A-Za-z_/][\w./:-]*", re.ASCII | re.IGNORECASE)
"""Text that Hydra reads as it is without quotes."""

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)]
"""What ends a run: Ctrl-C, and what schedulers send. Windows lacks the last."""

OVERRIDES = "AGENTGYM_RL_OVERRIDES"
"""Environment variable with further overrides of every run, after those of the command."""


def further() -> list[str]:
    """The overrides of the environment."""
    return shlex.split(os.environ.get(OVERRIDES, ""))


def train(*, quiet: bool = False, **overrides: Any) -> RunData:
    """Train, or resume, a run, as ``agentgym-rl train`` does, in a process of its own.

        train(experiment="demo", algorithm="grpo", seed=1, cloning={"epochs": 5})

    Args:
        quiet: do not print what the run prints.
        overrides: groups and keys of a recipe; nested keys as mappings, or dotted (``**{"cloning.epochs": 5}``).

    Raises:
        RecipeError: the recipe is wrong; nothing has started.
        RuntimeError: the run failed; the message has its last lines.
        KeyboardInterrupt: it was stopped, with everything saved; the same call resumes it.
        MissingExtra: the engine is not installed.
    """
    with needs("training", "cpu"):
        from agentgym_rl.engine.recipe.compose import load as compose
    words = list(_words(overrides))
    folder = compose([*words, *further()]).run.dir
    run_command([sys.executable, "-m", "agentgym_rl.cli", "train", *words], quiet)
    return load(folder)


def run_command(words: Sequence[str], quiet: bool) -> None:
    """Run a command to its end.

    Raises:
        RuntimeError: it failed; the message has its last lines.
        KeyboardInterrupt: it was stopped.
    """
    status, last = _command(words, quiet)
    if status == 130 or -status in SIGNALS:  # the latter before it listens
        raise KeyboardInterrupt(last[-1] if last else "")
    if status:
        raise RuntimeError("\n".join(["the run failed; its last lines:", *last]))


def _command(words: Sequence[str], quiet: bool) -> tuple[int, list[str]]:
    """Exit status and last lines of a command. It is waited for, whatever signal comes; see :func:`_passed_on`."""
    last: deque[str] = deque(maxlen=10)
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        with _passed_on(process):
            for line in process.stdout:
                last.append(line.rstrip("\n"))
                if not quiet:
                    print(line, end="", flush=True)
            return process.wait(), list(last)


@contextmanager
def _passed_on(process: subprocess.Popen[str]) -> Iterator[None]:
    """Inside, Ctrl-C and a scheduler's signals go to the process, which saves and ends.

    Only the main thread of Python hears signals: in another one, they do as before.
    """
    here = threading.current_thread() is threading.main_thread()
    handled = SIGNALS if here else []
    previous = {number: signal.signal(number, lambda number, _: process.send_signal(number)) for number in handled}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _words(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Overrides in Hydra's grammar."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _words(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={_value(value)}"


def _value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_value, value))}]"
    if isinstance(value, PurePath):
        value = str(value)
    if not isinstance(value, str) or _PLAIN.fullmatch(value):
        return str(value)
    from hydra.core.override_parser.types import Quote, QuotedString

    quoted: str = QuotedString(value, Quote.single).with_quotes()
    return quoted
