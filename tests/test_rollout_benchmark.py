"""benchmarks/rollout.py without an engine: its environments, both sides, the bound and what it prints."""

import asyncio
import json
import sys
from io import StringIO
from pathlib import Path
from random import Random
from statistics import median
from types import SimpleNamespace

import pytest
from rich.console import Console

pytest.importorskip("verl")

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import rollout  # noqa: E402
import where  # noqa: E402
from load import Busy, Cost, Metered  # noqa: E402
from lockstep import lockstep  # noqa: E402
from paced import PacedEnv, Script, latencies  # noqa: E402
from rollout_tables import Measured, show, verdicts  # noqa: E402

from agentgym_rl.envs import env_class  # noqa: E402
from agentgym_rl.envs.actions import ActionFormat  # noqa: E402
from agentgym_rl.envs.core import Task  # noqa: E402
from agentgym_rl.envs.formats import opening  # noqa: E402

STEP_S, REPLY_S = 0.04, 0.02


class Merged:
    def __init__(self, ids):
        self.token_ids = ids


class Builder:
    """As verl's: a token a character, without its templates."""

    def build_initial_tokens(self, messages):
        return [ord(letter) for message in messages for letter in message["content"]]

    def merge_context_tokens(self, before, after, ids):
        return Merged([*ids, *(ord(letter) for letter in after[-1]["content"])])


class Tokenizer:
    def encode(self, text, add_special_tokens=False):
        return [ord(letter) for letter in text]

    def decode(self, ids, skip_special_tokens=False):
        return "".join(map(chr, ids))

    def apply_chat_template(self, messages, tokenize):
        return "".join(message["content"] for message in messages)


class Output:
    stop_reason, extra_fields = "completed", {}

    def __init__(self, count):
        self.token_ids, self.log_probs = [120] * count, [-1.0] * count


class Server:
    def __init__(self):
        self.asked = []
        """By which episodes, in order."""

    async def generate(self, *, request_id, prompt_ids, sampling_params):
        self.asked.append(request_id)
        await asyncio.sleep(REPLY_S)
        return Output(sampling_params["max_tokens"])


@pytest.fixture
def model():
    return rollout.Model(Server(), Tokenizer(), Builder(), lambda: None, trainer=None)


def script(turns):
    spec = env_class("maze")("compact").spec
    messages = (*opening(spec, "compact", ActionFormat.REACT), {"role": "user", "content": "start"})
    return Script(Task("maze", turns), spec, messages, ("seen",) * turns, 3)


def batch(turns, wait=STEP_S):
    return [rollout.Paced(script(count), [wait] * (count + 1)) for count in turns]


def test_every_side_asks_the_same_of_the_same_worlds(model):
    played = batch([1, 2, 4])
    asked = rollout.requests(model, played)
    assert sorted(len(requests) for requests in asked) == [1, 2, 4]
    for run in (
        lambda server, world: rollout.ours(model, server, world, played),
        lambda server, world: rollout.rounds(model, server, world, played, 0.0),
        lambda server, world: rollout.model_only(server, asked),
    ):
        server = Metered(Server(), requests={})
        asyncio.run(run(server, Busy()))
        found = sorted(tuple(request.prompt_ids) for own in server.requests.values() for request in own)
        assert found == sorted(tuple(request.prompt_ids) for own in asked for request in own)


@pytest.mark.slow
def test_rounds_wait_for_the_slowest_world_and_ours_does_not(model):
    slow_at = (1, 2, 3)  # another episode is slow in each round
    played = [
        rollout.Paced(script(3), [0.0, *(0.15 if turn == slow else 0.0 for turn in (1, 2, 3))]) for slow in slow_at
    ]
    assert rollout.play_side("environments only", model, played, []).seconds >= 0.15
    assert rollout.play_side("lockstep", model, played, []).seconds > 0.45
    assert [len(set(model.client.asked[at : at + 3])) for at in (0, 3, 6)] == [3, 3, 3]
    model.client.asked.clear()
    rollout.play_side("ours", model, played, [])
    assert [len(set(model.client.asked[at : at + 3])) for at in (0, 3, 6)] != [3, 3, 3]


def test_the_longest_episode_is_played_alone(model):
    played = [*batch([1, 4]), *batch([2], 0.3)]
    row = rollout.play_side("longest alone", model, played, [])
    assert (row.episodes, row.turns) == (1, 2)
    assert row.seconds > 0.9


def test_the_pause_is_slept_once_a_round(model):
    envs = [PacedEnv(script(2), [0.0] * 3, Busy())]
    server = Metered(Server())
    with Cost() as cost:
        asyncio.run(lockstep(envs, [model.conversation(server, script(2))], 0.2))
    assert cost.seconds > 0.4
    assert server.calls == 2


def test_the_tail_is_heavy_and_drawn_by_seed():
    drawn = sorted(latencies("tail", 100.0, 40_000, Random(0)))
    assert median(drawn) == pytest.approx(0.1, rel=0.05)
    assert drawn[int(0.99 * len(drawn))] == pytest.approx(2.0, rel=0.15)
    assert latencies("tail", 100.0, 5, Random(1)) == latencies("tail", 100.0, 5, Random(1))
    assert latencies("10", 100.0, 2, Random(0)) == [0.01, 0.01]


def test_any_number_of_episodes_has_the_same_turns():
    scripts = [script(turns) for turns in (1, 2, 2, 3, 5, 8, 13, 20)]
    mean = sum(script.turns for script in scripts) / len(scripts)
    for count in (8, 16, 64, 1000):
        found = rollout.episodes(scripts, count, "0", 100.0, "0")
        assert sum(paced.script.turns for paced in found) / count == pytest.approx(mean, rel=0.01)
        assert all(len(paced.waits) == paced.script.turns + 1 for paced in found)


def test_recorded_worlds_are_those_of_their_oracles():
    (first, second, third) = asyncio.run(rollout.record(1, len))
    assert (first.task.env, second.task.env, third.task.env) == ("textcraft", "babyai", "maze")
    for script in (first, second, third):
        assert script.reply_tokens > 1
        assert script.opening[-1]["role"] == "user"


def test_busy_time_is_counted_once(monkeypatch):
    clock = iter([3.0, 5.0])
    monkeypatch.setattr("load.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    busy = Busy()
    with busy, busy:
        pass
    assert busy.seconds == 2.0


def made_rows():
    seconds = {
        "ours": 2.0, "lockstep": 8.0, "lockstep+1s": 20.0, "model only": 1.9, "environments only": 1.0,
        "longest alone": 1.5,
    }  # fmt: skip
    return [
        {
            "in_flight": count, "latency": "-" if side == "model only" else "tail", "repeat": repeat,
            "side": side, "episodes": count, "turns": 6 * count, "seconds": taken * (1 + repeat),
            "model_idle": 0.1, "world_idle": 0.2, "cpu_s": 0.001 * count, "servers_cpu_s": 0.002 * count,
            "memory_mib": 4.0,
        }
        for count in (16, 256, 1000)
        for repeat in range(2)
        for side, taken in seconds.items()
        if side != "lockstep+1s" or repeat == 0
    ]  # fmt: skip


def test_ratios_are_taken_within_a_repeat():
    cell = Measured(made_rows(), 256, "tail")
    assert cell.times("lockstep") == [4.0, 4.0]
    assert cell.times("lockstep+1s") == [10.0]
    assert cell.of_bound() == [0.95, 0.95]
    found = "\n".join(verdicts({(count, "tail"): Measured(made_rows(), count, "tail") for count in (16, 256, 1000)}))
    assert "times lockstep, tail, 256: 4.00 (target >= 3: met)" in found
    assert "of the bound, 256, tail: 0.95 (target >= 0.9: met)" in found
    assert "1000 over 16, tail: 1.00 (target <= 1.2: met)" in found


def test_the_tables_print():
    out = StringIO()
    show(Console(file=out, width=200), made_rows(), [(16, "tail"), (256, "tail")], 100.0)
    assert "ours/lockstep" in out.getvalue()
    assert "model" in out.getvalue()


def test_without_every_pair_a_cross_is_measured():
    found = rollout.cells([256, 16], ["0", "tail"], 256, every_pair=False)
    assert [(cell.in_flight, cell.latency) for cell in found] == [(16, "tail"), (256, "0"), (256, "tail")]
    assert len(rollout.cells([256, 16], ["0", "tail"], 256, every_pair=True)) == 4


def test_a_journal_goes_on_behind_its_last_whole_line(tmp_path):
    """What a killed process left of a line would be joined to the next one."""
    journal, row = tmp_path / "rollout.jsonl", {"in_flight": 16, "latency": "0", "repeat": 0, "side": "ours"}
    journal.write_text(f"{json.dumps(row)}\n{{'in_fl")
    assert rollout.journal_of(journal) == [row]
    assert rollout.measurement(row) == (rollout.Cell(16, "0"), 0, "ours")
    assert journal.read_text() == f"{json.dumps(row)}\n"


def test_what_does_not_depend_on_the_setting_is_measured_once():
    found = rollout.plan(rollout.cells([16], ["0", "tail"], 16, every_pair=False), 2)
    assert len(found) == len(set(found))
    assert sum(side == "model only" for *_, side in found) == 2
    assert sum(side == "lockstep+1s" for *_, side in found) == 2
    assert sum(side == "ours" for *_, side in found) == 4


def test_time_in_built_in_functions_is_the_callers():
    spent = where.profile(lambda: [json.dumps(list(range(2000))) for _ in range(100)])
    assert spent["json"] > 0 and set(spent) <= {"json", "other"}
    assert where.package("/a/lib/python3.11/site-packages/verl/trainer/x.py") == "verl"
    assert where.package("/a/agentgym_rl/data/play.py") == "agentgym_rl"
    assert where.package("/a/lib/python3.11/asyncio/events.py") == "asyncio"
