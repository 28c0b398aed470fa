"""The examples do what their docstrings say, run as a stranger runs them."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise, zip_longest
from math import e
from pathlib import Path
from typing import Any

import pytest

from agentgym_rl.algorithms.base import Request, Rollout, Run
from agentgym_rl.algorithms.losses.base import Tokens
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.envs import Task
from agentgym_rl.envs.maze import Maze, tasks
from agentgym_rl.rollout.conversation import Scripted
from agentgym_rl.rollout.loop import run_attempt
from agentgym_rl.rollout.policies import Random
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.supervised import Example

EXAMPLES = Path(__file__).parents[1] / "examples"
PAGE = Path(__file__).parents[1] / "docs/add-an-algorithm.md"
PACKAGES = ("add_an_environment", "add_an_algorithm")
CLI = "-m", "agentgym_rl.cli"


def run(place: Path, *arguments: str | Path, check: bool = True) -> str:
    """What a Python program prints, run in ``place``."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=500)
    if check:
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the two example packages."""
    folder = tmp_path_factory.mktemp("examples") / "site"
    offline = "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"
    run(EXAMPLES, "-m", "pip", "install", "-q", "--target", folder, *offline, *(EXAMPLES / name for name in PACKAGES))
    return folder


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example packages are there, for this process's children."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])))


def test_forty_lines_are_enough_for_an_environment():
    text = EXAMPLES.joinpath("add_an_environment/guess.py").read_text()
    docstring = ast.parse(text).body[0]
    rest = text.splitlines()[docstring.end_lineno :]
    assert len([line for line in rest if line.strip()]) <= 40


@pytest.mark.parametrize(
    "file", sorted({*EXAMPLES.rglob("*.py")} - {*EXAMPLES.rglob("__init__.py")}), ids=lambda path: path.name
)
def test_a_docstring_says_how_to_run_it(file):
    said = ast.get_docstring(ast.parse(file.read_text()))
    assert f"examples/{file.relative_to(EXAMPLES).parts[0]}" in said or f"python examples/{file.name}" in said


@pytest.mark.slow
def test_the_world_keeps_the_contract(installed, tmp_path):
    said = run(tmp_path, *CLI, "check", "guess")
    assert "tasks solved" in said and "FAIL" not in said


ALGORITHMS = (
    "turn_rloo", "late_turns", "duration", "prefer_then_imitate", "tree", "hindsight", "next_state",
    "playbook",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_is_known_to_recipes(installed, tmp_path, name):
    pytest.importorskip("verl")
    shown = run(tmp_path, *CLI, "train", "experiment=smoke", f"algorithm={name}", "--show")
    assert f"name: {name}" in shown and "tasks_per_step: 4" in shown, "the package's own recipe was read"
    refused = run(tmp_path, *CLI, "train", "experiment=smoke", f"algorithm={name}", "algorithm.beat=1", check=False)
    assert "algorithm.beat" in refused


def test_every_recipe_of_the_package_is_for_an_algorithm_of_it():
    tuned = EXAMPLES.joinpath("add_an_algorithm/my_algorithms/recipes/tuned").glob("*.yaml")
    assert {path.stem for path in tuned} == {f"smoke_{name}" for name in ALGORITHMS}


@pytest.mark.slow
def test_pairs_need_whole_conversations(installed, tmp_path):
    pytest.importorskip("verl")
    windowed = "experiment=smoke", "algorithm=prefer_then_imitate", "rollout.context=window"
    said = run(tmp_path, *CLI, "train", *windowed, check=False)
    assert "algorithm=prefer_then_imitate needs whole conversations; set rollout.context=full" in said


def episode(*rewards, spans=(), success=True):
    turns = [
        Turn(response="r", action="r", observation="", reward=reward, invalid=False, tokens=span)
        for reward, span in zip_longest(rewards, spans, fillvalue=(0, 0))
    ]
    tokens = spans[-1][1] if spans else 0
    return Episode(
        env="e", item_id="e_1", ending=Ending.TERMINATED, reward=sum(rewards), success=success, max_turns=9,
        turns=turns, response_tokens=tokens,
    )  # fmt: skip


class Branching:
    """A run of one task in two episodes; each of the branches ends as told."""

    seed, replayable = 0, ("e",)

    def __init__(self, roots, outcomes):
        self.roots, self.outcomes, self.learned = roots, outcomes, []

    def requests(self, number):
        return []

    def observe(self, rollouts):
        assert rollouts == self.roots

    def request(self, number, task, **fields):
        return Request(task=task, **fields)

    def rollouts(self, requests, label):
        if label == "rollouts":
            return self.roots
        return [self.branch(request, next(self.outcomes)) for request in requests for _ in range(request.samples)]

    def branch(self, request, outcome):
        known = len(request.prefix.responses)
        ended = episode(*[0.0] * known, outcome or 0.0, spans=[(at, at + 1) for at in range(known + 1)])
        ended.messages = self.roots[0].episode.messages[: 1 + 2 * known] if outcome is not None else []
        for turn in ended.turns[:known]:
            turn.calls = 0
        return Rollout(episode=ended, segments=[Example([7], [1.0])])

    def learn(self, rows, loss, **_):
        self.learned = rows
        return {}


def test_turns_are_worth_what_branches_from_them_return(monkeypatch):
    """A failure of three turns, branched after each; the last branch meets another environment."""
    monkeypatch.syspath_prepend(EXAMPLES / "add_an_algorithm")
    from my_algorithms.tree import Tree, TreeConfig

    lost, won = episode(0.0, 0.0, 0.0, spans=[(0, 1), (1, 2), (2, 3)]), episode(1.0, spans=[(0, 1)])
    roots = [Rollout(episode=root, segments=[Example([5, 6, 7], [1.0, 1.0, 1.0])], group="g") for root in (lost, won)]
    for root in (lost, won):
        root.messages = [{"role": role, "content": "r"} for _ in root.turns for role in ("user", "assistant")]
    scripted = Branching(roots, iter([0.75, 0.75, 0.5, None]))
    monkeypatch.setattr("my_algorithms.tree.drawn", lambda root, points, seed: [*range(1, len(root.episode.turns))])
    assert Tree(TreeConfig()).unit(scripted, 0) == {"tree/points": 2, "tree/dropped": 1}
    branches, of_roots = scripted.learned[:3], scripted.learned[3:]
    assert [row.streams["advantage"] for row in branches] == [0.25, 0.25, 0.25]
    assert [row.streams["advantage"] for row in of_roots] == [[0.5 - 0.5, 0.25 - 0.5, 0.0 - 0.25], [1.0 - 0.5]]


def test_a_loss_of_ones_own_pulls_back_what_goes_far(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(EXAMPLES / "add_an_algorithm")
    from my_algorithms.own_loss import Proximal, ProximalConfig

    log_prob = torch.tensor([[0.0, 1.0, -1.0]], requires_grad=True)
    tokens = Tokens(
        log_prob=log_prob, old_log_prob=torch.zeros(1, 3), mask=torch.ones(1, 3).bool(),
        streams={"advantage": torch.full((1, 1), 2.0)},
    )  # fmt: skip
    loss = Proximal(ProximalConfig(tau=0.5))(tokens)
    assert loss.tolist() == [pytest.approx([-2.0, 0.25 - 2 * e, 0.25 - 2 / e])]
    loss.sum().backward()
    assert log_prob.grad.tolist() == [pytest.approx([-2.0, 0.5 - 2 * e, -0.5 - 2 / e])]
    with pytest.raises(ValueError, match="tau"):
        ProximalConfig(tau=0.0)


def test_turn_level_credit(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES / "add_an_algorithm")
    from my_algorithms.turn_rloo import TurnRLOO, TurnRLOOConfig

    group = [episode(0.0, 0.0, 1.0), episode(0.0, 0.0), episode(0.5)]
    found = TurnRLOO(TurnRLOOConfig(gamma=0.5)).credit(group)
    assert found == [[0.25 - 0.25, 0.5 - 0.0, 1.0 - 0.0], [-0.375, -0.25], [0.5 - 0.125]]


def test_slow_turns_weigh_more(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES / "add_an_algorithm")
    from my_algorithms.duration import Duration, DurationConfig, Unit

    group = [episode(0.0, 1.0, spans=((0, 3), (5, 6))), episode(0.0, spans=((0, 2),))]
    for turn, seconds in zip([*group[0].turns, *group[1].turns], (1.0, 4.0, 1.0), strict=True):
        turn.model_s, turn.env_s = seconds / 4, 3 * seconds / 4
    config = DurationConfig(normalise_by_std=False)
    assert Duration(config).credit(group) == [[0.25, 1.0], [-0.25]]
    assert Duration(replace(config, unit=Unit.TOKENS)).credit(group) == [[0.75, 0.25], [-0.5]]


def test_loss_weights_of_turns(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES / "add_an_algorithm")
    from my_algorithms.late_turns import weights

    assert weights(episode(0.0, 0.0, 0.5), 0.8) == pytest.approx([0.5 * 0.8**2, 0.5 * 0.8, 0.5])


class ScriptedRun:
    """A run whose rollouts are given, and whose requests, updates and encoded conversations are noted."""

    seed, step, replayable = 0, 1, ("e",)
    demonstrations = (Rollout(episode=episode(1.0), segments=[Example([7, 7], [0.0, 1.0])]),)

    def __init__(self, *rollouts):
        self.given, self.updates, self.asked, self.encoded = list(rollouts), [], [], []
        self.rows = []

    def requests(self, number):
        return []

    def request(self, number, task, **fields):
        return Request(task=task, **fields)

    def rollouts(self, requests, label, *, resumable=False):
        self.asked += requests
        return self.given

    def encode(self, messages, task):
        self.encoded.append(messages)
        return Rollout(episode=episode(1.0), segments=[Example([0, len(self.encoded)], [0.0, 1.0])])

    def observe(self, rollouts):
        pass

    def learn(self, rows, loss, **_):
        self.updates.append([row.segment for row in rows])
        self.rows = rows
        return {}


def test_stages_keep_what_exploration_found(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES / "add_an_algorithm")
    from my_algorithms.prefer_then_imitate import PreferThenImitate, PreferThenImitateConfig

    won = Rollout(episode=episode(1.0), segments=[Example([1], [0.0])])
    lost = Rollout(episode=episode(0.0, success=False), segments=[Example([2], [0.0])])
    scripted, config = ScriptedRun(won, lost), PreferThenImitateConfig(steps=1)
    first = PreferThenImitate(config)
    assert first.unit(scripted, 0) == {"prefer/pairs": 1, "prefer/successes": 1}
    resumed = PreferThenImitate(config)
    resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for number in range(1, resumed.units):
        resumed.unit(scripted, number)
    preferred, imitated = scripted.updates
    assert preferred == [won.segments[0], lost.segments[0]]
    assert imitated == [*scripted.demonstrations[0].segments, won.segments[0]]


class OtherGoal(Maze):
    """A maze whose goal is another cell."""

    def __init__(self, puzzle):
        super().__init__("compact")
        self.puzzle = puzzle

    def _find(self, task):
        return self.puzzle


def test_hindsight_says_what_the_environment_would_with_the_other_goal(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES / "add_an_algorithm")
    from my_algorithms.hindsight import achieved

    env, rules, relabelled = Maze("compact"), RolloutSettings(style="compact", max_turns=6), 0
    for index in range(26, 56):
        task = Task("maze", index)
        failed = asyncio.run(Random(1).run(env, task, rules))
        messages = [] if failed.success else achieved(failed)
        if messages:
            responses = iter([message["content"] for message in messages if message["role"] == "assistant"])
            moved = OtherGoal(replace(tasks.puzzle(index), goal=env._cell))
            again = asyncio.run(run_attempt(moved, task, Scripted(lambda _, said=responses: next(said)), rules))
            assert again.success and again.messages == messages
            relabelled += 1
    assert relabelled > 10


def test_hindsight_imitates_what_failed_as_what_it_achieved(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES / "add_an_algorithm")
    from my_algorithms.hindsight import Hindsight, HindsightConfig

    won, lost = episode(1.0), episode(0.0, 0.0, success=False)
    lost.messages = [
        {"role": "user", "content": "goal two right open left right"},
        {"role": "assistant", "content": "r"},
        {"role": "user", "content": "goal one right open left right"},
        {"role": "assistant", "content": "r"},
    ]
    lost.turns[0].observation, lost.turns[1].observation = lost.messages[2]["content"], "No."
    segments = [Example([1], [0.0])]
    scripted = ScriptedRun(Rollout(episode=won, segments=segments), Rollout(episode=lost, segments=segments))
    told = Hindsight(HindsightConfig(steps=1, weight=0.25)).unit(scripted, 0)
    assert told == {"hindsight/failed": 1, "hindsight/relabelled": 1}
    assert [message["content"] for message in scripted.encoded[0]] == ["goal one right open left right", "r"]
    assert [row.streams["cross_entropy"] for row in scripted.rows] == [1.0, 0.25]


def test_the_next_state_is_learned_after_an_action_that_the_expert_did_not_take(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES / "add_an_algorithm")
    from my_algorithms.next_state import NextState, NextStateConfig

    segment = Example([*range(9)], [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0], prompt=2)
    branch = episode(0.0, 0.0, spans=[(0, 2), (5, 7)])
    ended = episode(0.0, 1.0, spans=[(0, 2), (5, 7)])
    ended.turns[0].calls = 0
    scripted = ScriptedRun(Rollout(episode=branch, segments=[segment]), Rollout(episode=ended, segments=[segment]))
    scripted.demonstrations = [Rollout(episode=episode(0.0, 0.0, 1.0)) for _ in range(8)]
    told = NextState(NextStateConfig(steps=1, tasks_per_step=6)).unit(scripted, 0)
    assert told == {"next_state/branches": 2, "next_state/observations": 1}
    replayed = [len(request.prefix.responses) for request in scripted.asked]
    assert len(replayed) == 6 and set(replayed) == {0, 1, 2}
    assert [request.max_turns for request in scripted.asked] == [turns + 2 for turns in replayed]
    assert all(request.prefix.avoid == ["r"] and not request.prefix.learn for request in scripted.asked)
    (row,) = scripted.rows
    assert row.streams["cross_entropy"] == (0, 0, 0, 0, 1, 1, 1, 0, 0), "what is between the two responses"


@pytest.mark.parametrize("without", [False, True])
def test_the_playbook_keeps_what_succeeded(monkeypatch, without):
    monkeypatch.syspath_prepend(EXAMPLES / "add_an_algorithm")
    from my_algorithms.playbook import Playbook, PlaybookConfig

    first = Playbook(PlaybookConfig(steps=2, lines=2, learn_without=without))
    assert first.prompt("e") == ""
    rollouts = [Rollout(episode=episode(*rewards), segments=[Example([1], [0.0])]) for rewards in ([1.0], [0.0, 1.0])]
    for rollout in rollouts:
        rollout.episode.messages = [
            {"role": "user", "content": "Look.\n\nStart."},
            {"role": "assistant", "content": "r"},
        ]
        rollout.episode.preface = "Look."
    scripted = ScriptedRun(*rollouts, Rollout(episode=episode(0.0, success=False), segments=[Example([3], [0.0])]))
    assert first.unit(scripted, 0) == {"playbook/successes": 2, "playbook/lines": 2}
    assert (len(scripted.rows), len(scripted.encoded)) == (2, 2 * without)
    assert all(messages[0]["content"] == "Start." for messages in scripted.encoded)
    again = Playbook(PlaybookConfig(lines=2))
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert again.prompt("e") == "What worked before:\nr\nr; r" and again.prompt("other") == ""
    again.add(episode(0.0, 0.0, 1.0))
    again.add(episode(0.0, 1.0))
    assert again.prompt("e").splitlines()[1:] == ["r; r; r", "r; r"], "the newest, each once"


def test_the_code_of_the_page_runs(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES / "add_an_algorithm")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    rollouts = [Rollout(episode=episode(reward), segments=[Example([1], [1.0])]) for reward in (1.0, 0.0)]
    scripted = ScriptedRun(*rollouts)
    assert names["Imitate"](names["OnlineConfig"](steps=1)).unit(scripted, 0) == {}
    assert scripted.updates == [[rollout.segments[0] for rollout in rollouts]]
    assert len(blocks) == 2


def test_the_page_names_every_example_and_verbs_that_there_are():
    page = PAGE.read_text()
    files = {path.name for path in EXAMPLES.glob("add_an_algorithm/my_algorithms/*.py")} - {"__init__.py"}
    assert {name for name in files if f"| `{name}` |" not in page} == set()
    verbs = set(re.findall(r"^\| `(\w+)[(`]", page, re.MULTILINE))
    assert {"requests", "learn", "generate"} <= verbs <= vars(Run).keys()


def test_collect_and_read_shows_what_is_learnt(tmp_path):
    said = run(tmp_path, EXAMPLES / "collect_and_read.py")
    assert "5 of 5 tasks solved" in said and "--- assistant (trained on)" in said


def halve(messages):
    """Plays the guessing game by halving, from the conversation alone."""
    low, high = 1, 100
    for said, heard in pairwise(messages):
        if heard["content"] in ("Higher.", "Lower."):
            number = int(said["content"].split()[-1])
            low, high = (number + 1, high) if heard["content"] == "Higher." else (low, number - 1)
    return f"Thought: half of what is left.\nAction: guess {(low + high) // 2}"


@pytest.mark.slow
def test_an_api_model_is_evaluated(installed, tmp_path, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.syspath_prepend(Path(__file__).parent / "rollout")
    from chat_server import ChatServer

    async def work(name):
        script = EXAMPLES / "api_model.py"
        return await asyncio.to_thread(run, tmp_path, script, name, "guess", "--n", "6", "--out", "played.json")

    said = asyncio.run(ChatServer(halve).during(work))
    assert "success  6/6, 95% interval 61.0% to 100.0%" in said
    assert len(json.loads(tmp_path.joinpath("played.json").read_text())) == 6


@pytest.mark.slow
def test_a_served_world_is_played(tmp_path):
    pytest.importorskip("fastapi")
    pytest.importorskip("aiohttp")
    said = run(tmp_path, EXAMPLES / "remote_server.py", "--play-only")
    assert "3 trajectories from 3 episodes (3 solved)" in said


TRAINED = {"turn_rloo": "actor/squared_log_ratio", "tree": "tree/points"}
"""What the engine trains, and a metric of each of its steps."""


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_engine_trains_the_algorithms_on_a_served_world(installed, tmp_path):
    """One after the other on one engine, two steps each; the loss of ``turn_rloo`` is the package's own."""
    said = run(tmp_path, EXAMPLES / "remote_server.py", "--", "-m", f"algorithm={','.join(TRAINED)}",
               "logger.wandb=offline", "run.evaluate_untrained=false", "run.greedy=false",
               "envs.textcraft.panels.new_variants.n=2")  # fmt: skip
    assert said.count("engine ready") == 1 and "this run needs another engine" not in said
    for name, metric in TRAINED.items():
        lines = (tmp_path / f"runs/remote-{name}/metrics.jsonl").read_text().splitlines()
        assert len([row for row in map(json.loads, lines) if metric in row]) == 2, f"{name}: no two rows with {metric}"
