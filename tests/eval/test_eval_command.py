"""``agentgym-rl eval`` as it is typed."""

import asyncio
import json
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import toy
from typer.testing import CliRunner

from agentgym_rl.api.request import EvalRequest, read
from agentgym_rl.cli import app
from agentgym_rl.envs.core import EnvUnavailable

sys.path.insert(0, str(Path(__file__).parents[1] / "rollout"))

from chat_server import ChatServer

pytestmark = pytest.mark.usefixtures("toys")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    return CliRunner().invoke(app, ["eval", *map(str, arguments)], env={"COLUMNS": "150"})


def test_a_table_and_files(tmp_path):
    result = run("panel=counter:test,vast:test:4", "policy=random", "samples=2", "temperature=1")
    assert result.exit_code == 0, result.output
    panels = r"panel ([0-9a-f]{12}): counter test .* \(n=10\), vast test-n4-seed0 .* \(n=4\)"
    digest = re.match(panels, result.stdout)[1]
    for part in ("counter", "length 3", "mean of 2 environments", "pass@2", "pass^2", digest):
        assert part in result.stdout
    folder = tmp_path / "evals" / digest / "random-n2-t1-seed0"
    assert f"written: evals/{digest}/random-n2-t1-seed0" in result.stdout
    assert json.loads((folder / "result.json").read_text())["plan"]["panel"]["digest"] == digest


def test_results_are_compared():
    for policy in ("random", "oracle"):
        assert run("panel=counter:train", f"policy={policy}", f"out={policy}").exit_code == 0
    result = run("--compare", "random", "oracle")
    assert result.exit_code == 0
    assert "McNemar" in result.stdout and "Tasks that changed sides" in result.stdout and "counter_0" in result.stdout
    assert run("panel=counter:test", "policy=oracle", "out=other").exit_code == 0
    refused = run("--compare", "random", "other")
    assert refused.exit_code == 2 and "different panels" in refused.output


def test_rules_and_options_are_taken():
    result = run(
        "panel=counter:test", "policy=oracle", "max_turns=1", "style=compact", "options.counter.hurry=true", "out=a"
    )
    assert result.exit_code == 0, result.output
    rules = json.loads(Path("a/result.json").read_text())["plan"]["rules"]
    assert (rules["settings"]["max_turns"], rules["settings"]["style"]) == (1, "compact")
    assert rules["options"] == {"counter": {"hurry": True}}


def test_names_and_paths_are_taken_as_they_are():
    """As YAML the first are numbers and a truth value, then a comment begins, and the last are no YAML."""
    for name in ("2026_11_28", "1e3", "no", "run #1", "@new", "[old"):
        assert read(["panel=counter:test", "policy=oracle", f"out={name}"]).out == Path(name)
    assert read(["panel=counter:test", "policy=oracle", "harness=a.py --say 'a: b' #2"]).harness.endswith("'a: b' #2")
    assert read(["panel=counter:test", "policy=oracle", "out=null", "without=seed"]).out is None


def test_what_an_api_ended_is_told():
    def evaluated(name):
        return run(
            "panel=counter:test", f"policy={name}", "concurrency=1", "without=seed,max_completion_tokens", "out=a"
        )

    server = ChatServer(lambda messages: "Action: say 9", None, (400, "odd"), (200, b"<html>"), None, (403, "no"))
    result = asyncio.run(server.during(lambda name: asyncio.to_thread(evaluated, name)))
    assert result.exit_code == 0, result.output
    warning = (
        "3 episodes were ended by an answer of the model's API and count as they stand (2 refused, 1 malformed), such"
    )
    assert (
        f"{warning} as counter_41: openai:some/model@http://127.0.0.1:{server.port}/v1 answered 400: odd"
        in result.stdout
    )
    assert "replies by finish_reason: 7 stop; 0 empty" in result.stdout
    assert all("max_tokens" in request and "seed" not in request for request in server.requests)


def test_failures_outside_the_agent_are_told(monkeypatch):
    reset = toy.Counter.reset

    async def failing(self, task):
        if task.index == 43:
            raise EnvUnavailable("gone")
        return await reset(self, task)

    monkeypatch.setattr(toy.Counter, "reset", failing)
    result = run("panel=counter:test", "policy=oracle", "retries=0")
    assert "1 episodes failed outside the agent and do not count, such as counter_43" in result.stdout
    assert result.exit_code == 2
    assert (
        "only 9 of 10 episodes of counter count (min_counted=0.95); the others failed outside the agent"
        in result.stderr
    )
    assert "EnvUnavailable: gone" in result.stderr
    again = run("panel=counter:test", "policy=oracle", "retries=0", "min_counted=0.9")
    assert again.exit_code == 0, again.output
    monkeypatch.undo()


def test_an_evaluation_in_which_nothing_counts_fails(monkeypatch):
    async def failing(self, task):
        raise EnvUnavailable("gone")

    monkeypatch.setattr(toy.Counter, "reset", failing)
    result = run("panel=counter:test:3", "policy=oracle", "retries=0")
    assert result.exit_code == 2 and "3 episodes failed outside the agent" in result.stdout
    assert (
        "only 0 of 3 episodes of counter count"
        in run("panel=counter:test:3", "policy=oracle", "retries=0", "min_counted=0").stderr
    )


def test_help_names_every_key():
    text = CliRunner().invoke(app, ["eval", "--help"], env={"COLUMNS": "80"}).stdout
    for name in {field.name for field in fields(EvalRequest)} - {"options"}:
        assert f" {name}=" in text, name
    assert "options.ENV.KEY=" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "panel= is missing, such as panel=textcraft:test:50"),
        (["panel=counter:test"], "policy= is missing, such as policy=oracle"),
        (["panel"], "'panel' is not KEY=VALUE"),
        (
            ["panel=counter:test", "polcy=oracle"],
            "'polcy'; did you mean policy=.; known are panel, policy, temperature",
        ),
        (["panel=counter:test", "policy.name=oracle"], "unknown key 'policy.name'"),
        (["data.path=AgentEval/maze"], "data.path is AgentGym-RL's; here: panel=, the file of item ids"),
        (["panel=counter:test", "panel=counter:train", "policy=oracle"], "panel= is given twice"),
        (
            ["panel=counter:test", "policy=oracle", "samples=many"],
            "samples=many is not a whole number",
        ),
        (["panel=counter:test", "policy=oracle", "min_counted=95"], "min_counted=95 is no share"),
        (["panel=counter:test", "policy=oracle", "temperature=.nan"], "temperature=nan: give a finite number"),
        (["panel=counter:test", "policy=oracle", "temperature=-1"], "temperature=-1 is below 0"),
        (["panel=counter:test", "policy=oracle", "price=1,.inf"], "price=inf: give a finite number"),
        (["panel=counter:test", "policy=oracle", "nearest=3"], "nearest=3 has no effect without exemplars="),
        (["panel=counter:test", "policy=oracle", "price=3"], "price= takes two numbers"),
        (["panel=counter:test", "policy=oracle", "samples=0"], "samples is 0; give at least 1"),
        (["panel=counter:test", "policy=expert"], "policy 'expert' is unknown; choose oracle, random, a run"),
        (["panel=counter:test", "policy=openai:gpt"], "is not openai:<model>@<url>"),
        (["panel=counter:test", "policy=openai:m@http://x/v1", "samples=2"], "of a greedy model are the same"),
        (["panel=counter:test", "policy=openai:m@http://x/v1", "without=top_p"], "without=top_p is always sent"),
        (["panel=counter:test", "policy=openai:m@http://x/v1", "max_cost=2"], "needs to be above 0, and a price"),
        (
            ["panel=counter:test", "policy=oracle", "style=loud"],
            "style=loud is unknown; choose agentgym, compact",
        ),
        (
            ["panel=counter:test", "policy=oracle", "action_format=morse"],
            "action_format=morse is unknown; choose react, function",
        ),
        (["panel=counter:test", "policy=oracle", "options.counter.speed=1"], "counter has no option 'speed'"),
        (["panel=counter:test", "policy=oracle", "options.counter"], "not KEY=VALUE"),
        (["panel=counter:test", "policy=oracle", "options=3"], "'options' is not options.ENV.KEY"),
        (["panel=counter:test", "policy=oracle", "seed=[1"], r"seed=\[1 cannot be read; quote the value"),
        (["panel=counter:test", "policy=oracle", "options.counter.hurry=${a"], r"options.counter.hurry=\$\{a: "),
        (["--compare", "a", "b"], "a/result.json does not exist|a does not exist"),
        (["--compare", "a", "b", "panel=counter:test"], "--compare takes two results and no keys"),
        (["--compare", "a", "b", "--address", "http://x"], "--compare takes two results and no keys, got 'http://x'"),
    ],
)
def test_mistakes_are_told_before_anything_starts(tmp_path, arguments, says):
    result = run(*arguments)
    assert result.exit_code == 2
    assert re.search(says, result.output), result.output
    assert list(tmp_path.glob("evals")) == []
