"""The checker passes a sound environment and names the fault of each broken one."""

import asyncio
import json
import subprocess
import sys

import pytest
import toy

from agentgym_rl.envs import checks
from agentgym_rl.envs.check import CLOSES, check
from agentgym_rl.envs.checks import CHECKS, HASH_SEEDS, Subject, spec_sane
from agentgym_rl.envs.core import UnknownEnv
from agentgym_rl.envs.hosts import LocalHost

pytestmark = pytest.mark.usefixtures("toys")


@pytest.fixture
def one_process(monkeypatch):
    """Fresh processes start for longer than the other checks take."""
    monkeypatch.setattr(checks, "HASH_SEEDS", ())


ONE = pytest.mark.usefixtures("one_process")


@pytest.mark.parametrize("style", ["agentgym", "compact"])
def test_sound_world_passes_every_check(style):
    report = check("counter", n=4, options={"style": style})
    assert [finding for finding in report.findings if not finding.passed] == []
    assert report.passed
    assert report.style == style
    assert report.tasks == 8
    assert [finding.name for finding in report.findings] == list(CHECKS)


def test_a_split_that_cannot_be_had_is_an_error_and_not_passed():
    with pytest.raises(ValueError, match="harness has no split 'train'"):
        check("harness", "train")


@pytest.mark.slow
def test_another_process_with_other_transcripts():
    report = check("hash_ordered", split="train", n=8)
    assert any("PYTHONHASHSEED" in fault for fault in report["deterministic across processes"].faults)


@ONE
@pytest.mark.parametrize(
    ("world", "failing", "says"),
    [
        ("drifting", "deterministic within a process", "different transcripts"),
        ("drifting", "session can be reused", "another first observation"),
        ("false_oracle", "oracle solves", "the oracle earns 0"),
        ("boastful", "achieved goals earn success", "under the goal 'count to 2', 1 commands earn [0.0]"),
        ("generous", "oracle solves", "the reward 2.0; rewards are in [0, 1]"),
        ("trickling", "rewards in [0, 1] at random", "sum to"),
        ("endless", "calls out of order raise", "ProtocolError"),
        ("fragile", "garbage is an observation", "raised KeyError"),
        ("silent", "garbage is an observation", "info['invalid']"),
        ("boundless", "unknown task is refused", "index -1"),
        ("shared", "sessions are independent", "second session"),
        ("sticky", "session can be reused", "closed"),
        ("halved", "spec is sane", "'test' is missing"),
    ],
)
def test_broken_world_fails_the_check_meant_for_it(world, failing, says):
    report = check(world, split="train", n=8)
    assert not report.passed
    assert report[failing].passed is False
    assert any(says in fault for fault in report[failing].faults), report[failing].faults


@pytest.mark.parametrize(
    ("name", "sane"),
    [
        ("tool_shop", True), ("lmrlgym_chess", True), ("maze-far", True), ("a_1", True), ("tool_sheet", False),
        ("lmrlgym_maze", False), ("House", False), ("my.env", False), ("2048", False), ("häuser", False),
    ],
)  # fmt: skip
def test_a_name_whose_item_ids_do_not_read_back_is_a_fault(name, sane, monkeypatch):
    monkeypatch.setattr(toy.Counter, "name", name)
    subject = Subject(name, {}, toy.Counter(), [], ("train", "test"), LocalHost())

    async def faults():
        return [fault async for fault in spec_sane(subject)]

    says = f"ids such as {name}_0 are not read as those of {name!r}; give small letters, digits, _ and -"
    assert [fault.startswith(says) for fault in asyncio.run(faults())] == [True] * (not sane)


@ONE
@pytest.mark.parametrize("world", ["endless", "silent", "boundless", "shared", "halved"])
def test_a_single_fault_does_not_fail_the_other_checks(world):
    others = {"deterministic within a process", "deterministic across processes", "oracle solves"}
    report = check(world, split="train", n=3)
    assert {finding.name for finding in report.findings if finding.passed} >= others


@ONE
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda right: right[1:], "give one more"),
        (lambda right: [steps + 1 for steps in right], "0 where the task is solved, and nowhere else"),
        (lambda right: [2 * steps for steps in right], "a command takes one step, but those left are [4.0, 2.0"),
        (lambda right: [steps and steps + 5 - place for place, steps in enumerate(right)], "a command takes one step"),
    ],
)
def test_steps_left_that_are_wrong(monkeypatch, wrong, says):
    right = toy.Counter.steps_left
    monkeypatch.setattr(toy.Counter, "steps_left", lambda env, task, commands: wrong(right(env, task, commands)))
    report = check("counter", split="train", n=8)
    assert [finding.name for finding in report.findings if finding.passed is False] == ["steps left count down"]
    assert any(says in fault for fault in report["steps left count down"].faults)


@ONE
def test_a_close_that_fails_is_a_fault_beside_the_others(monkeypatch):
    closed = []

    class Here(LocalHost):
        async def close(self):
            closed.append(True)

    async def fail(self):
        raise OSError("the disk is full")

    monkeypatch.setattr(toy.Silent, "_close", fail, raising=False)
    report = check("silent", split="train", n=2, host=Here())
    assert report[CLOSES].faults == ("close raised OSError: the disk is full",) and not report.passed
    assert report["garbage is an observation"].passed is False and report["oracle solves"].passed
    with pytest.raises(ValueError, match="n is 0"):
        check("counter", n=0, host=Here())
    assert closed == [True, True]


@ONE
def test_a_game_in_two_splits_is_a_fault():
    report = check("repeating", n=4)
    assert [finding.name for finding in report.findings if finding.passed is False] == ["no game in two splits"]
    assert all("of test is the same game as repeating_" in fault for fault in report["no game in two splits"].faults)


@ONE
def test_every_fault_of_a_spec_is_listed():
    faults = " | ".join(check("halved", split="train", n=1)["spec is sane"].faults)
    assert "'test' is missing" in faults
    assert "'spare' is empty" in faults
    assert "'compact'" in faults


@ONE
def test_an_empty_split_leaves_nothing_to_try():
    report = check("halved", split="spare")
    assert [finding.name for finding in report.findings if finding.passed is False] == ["spec is sane"]
    assert {finding.detail for finding in report.findings[1:]} == {"there are no tasks to try"}


@ONE
def test_world_without_oracle_skips_the_oracle_check():
    report = check("plain", n=2)
    assert report["oracle solves"].passed is None
    assert check("wordle", split="test", n=1)["achieved goals earn success"].passed is None
    assert report.passed


def test_split_and_size_are_validated():
    with pytest.raises(ValueError, match=r"no split 'dev'; its splits: train, test"):
        check("counter", split="dev")
    with pytest.raises(ValueError, match="n is 0"):
        check("counter", n=0)
    with pytest.raises(UnknownEnv, match="counter"):
        check("no_such_world")


@ONE
def test_all_tasks_of_a_split():
    assert check("counter", split="test", n=None).tasks == 10


@ONE
def test_progress_names_each_check_and_only_grows():
    seen = []
    check("counter", n=2, progress=lambda title, share: seen.append((title, share)))
    assert list(dict.fromkeys(title for title, _ in seen)) == [*CHECKS, "done"]
    shares = [share for _, share in seen]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)


@pytest.mark.slow
def test_what_an_environment_prints_is_no_fault(toys):
    (toys / "loud_world.py").write_text(
        "import toy\n\nprint('ready')\n\n\nclass Loud(toy.Counter):\n    name = 'loud'\n\n"
        "    async def _step(self, action):\n        print(action)\n        return await super()._step(action)\n"
    )
    points = toys / "toy_worlds-1.0.dist-info" / "entry_points.txt"
    points.write_text(points.read_text() + "loud = loud_world:Loud\n")
    assert check("loud", n=1)["deterministic across processes"].passed


@pytest.mark.slow
def test_an_option_that_is_a_path(tmp_path):
    (tmp_path / "words.txt").write_text("crane\nslate\n")
    report = check("wordle", "train", n=1, options={"vocabulary": tmp_path / "words.txt"})
    assert report["deterministic across processes"].passed


def test_probe_process_prints_digests():
    request = {"env": "counter", "options": {"style": "compact"}, "item_ids": ["counter_1", "counter_2"]}
    process = subprocess.run(
        [sys.executable, "-m", "agentgym_rl.envs.probe"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
    )
    digests = json.loads(process.stdout)
    assert list(digests) == ["counter_1", "counter_2"]
    assert digests["counter_1"] != digests["counter_2"]
    assert len(HASH_SEEDS) > 1
