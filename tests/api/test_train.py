"""``ag.train``."""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym_rl as ag
from agentgym_rl.api import training

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.floats(-1e6, 1e6, allow_nan=False), st.text(max_size=30)
)


@given(value=st.one_of(SCALARS, st.lists(SCALARS, max_size=3)))
def test_a_value_is_read_back_as_it_is(value):
    parser = pytest.importorskip("hydra.core.override_parser.overrides_parser").OverridesParser
    [word] = training._words({"group": {"key": value}})
    [read] = parser.create().parse_overrides([word])
    assert read.key_or_group == "group.key"

    def plain(found: Any) -> Any:
        return [plain(part) for part in found] if isinstance(found, list) else getattr(found, "text", found)

    assert plain(read.value()) == value and type(plain(read.value())) is type(value)


def test_a_recipe_that_is_wrong_is_told_before_anything_starts(tmp_path, monkeypatch):
    pytest.importorskip("hydra")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"algorithm\.beat"):
        ag.train(experiment="smoke", algorithm="grpo", **{"algorithm.beat": 1})
    assert list(tmp_path.iterdir()) == []


def test_nested_keys_become_overrides():
    words = list(training._words({"experiment": "smoke", "cloning": {"epochs": 5}, "algorithm.lr": 1e-4}))
    assert words == ["experiment=smoke", "cloning.epochs=5", "algorithm.lr=0.0001"]
    assert list(training._words({"run.dir": Path("runs/a,b")})) == ["run.dir='runs/a,b'"], "not two values"


def test_what_a_command_prints_is_shown(capsys):
    status, last = training._command([sys.executable, "-c", "print('one'); print('two'); raise SystemExit(3)"], False)
    assert (status, last, capsys.readouterr().out) == (3, ["one", "two"], "one\ntwo\n")
    assert training._command([sys.executable, "-c", "print('one')"], True) == (0, ["one"])
    assert capsys.readouterr().out == ""


def test_a_run_that_fails_is_an_error_with_its_last_lines(monkeypatch, tmp_path):
    pytest.importorskip("hydra")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "_command", lambda words, quiet: (1, ["Error: the engine died"]))
    with pytest.raises(RuntimeError, match="the engine died"):
        ag.train(experiment="smoke")
    monkeypatch.setattr(training, "_command", lambda words, quiet: (130, ["saved"]))
    with pytest.raises(KeyboardInterrupt, match="saved"):
        ag.train(experiment="smoke")


def test_overrides_of_the_environment_may_name_the_folder(monkeypatch, tmp_path):
    pytest.importorskip("hydra")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTGYM_RL_OVERRIDES", "run.dir=elsewhere")
    monkeypatch.setattr(training, "_command", lambda words, quiet: (0, []))
    monkeypatch.setattr(training, "load", Path)
    assert ag.train(experiment="smoke") == Path("elsewhere")


@pytest.mark.parametrize("number", training.SIGNALS)
def test_a_stop_before_the_command_listens_is_no_failure(number):
    code = f"import os, time; os.kill(os.getpid(), {int(number)}); time.sleep(9)"
    with pytest.raises(KeyboardInterrupt):
        training.run_command([sys.executable, "-c", code], quiet=True)


def test_output_that_is_no_text_ends_nothing():
    code = r"import sys; sys.stdout.buffer.write(b'\xff\n'); sys.stdout.flush(); print('on')"
    assert training._command([sys.executable, "-c", code], True) == (0, ["\ufffd", "on"])


WAITS = """
import signal, time
def stop(*_):
    print("saved", flush=True)
    raise SystemExit(130)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, stop)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", training.SIGNALS)
def test_what_stops_a_run_is_passed_on_and_waited_for(number, monkeypatch):
    def press(line, **_):
        if line == "ready\n":
            threading.Timer(0.2, os.kill, (os.getpid(), number)).start()

    before = signal.getsignal(number)

    monkeypatch.setattr(training, "print", press, raising=False)
    assert training._command([sys.executable, "-c", WAITS], False) == (130, ["ready", "saved"])
    assert signal.getsignal(number) == before


def test_a_thread_waits_for_a_command_without_handlers():
    statuses = []
    code = "print('one')"
    thread = threading.Thread(target=lambda: statuses.append(training._command([sys.executable, "-c", code], True)))
    thread.start()
    thread.join()
    assert statuses == [(0, ["one"])]


@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_a_run_is_trained_and_read(smoke_run, monkeypatch):
    assert smoke_run.folder.is_dir() and "grpo" in {*smoke_run.summary["stage"]}
    assert len(smoke_run.metrics) and len(smoke_run.episodes)
    monkeypatch.chdir(smoke_run.folder.parents[1])
    again = ag.train(experiment="smoke", algorithm="grpo", logger={"wandb": "disabled"}, quiet=True)
    assert again.folder.samefile(smoke_run.folder), "the same call finds the finished run"
