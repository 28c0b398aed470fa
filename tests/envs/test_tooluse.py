"""What the environments of tools share: commands, answers, endings, numbering; and what holds for each of them."""

import asyncio
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import swept
from tool_sessions import call, run_episode

from agentgym_rl.envs import Task, make, tooluse
from agentgym_rl.envs.check import check
from agentgym_rl.envs.core import EnvError, OracleUnavailable, ProtocolError, Style, TaskNotFound, TextEnv
from agentgym_rl.envs.texts import read_texts
from agentgym_rl.envs.tools import Tool
from agentgym_rl.envs.tooluse import Draft, GeneratedTasks, Problem, Refused, ToolEnv, ToolEnvTexts
from agentgym_rl.envs.tooluse.answers import matches
from agentgym_rl.envs.tooluse.official import OfficialTask, read_official
from agentgym_rl.envs.tooluse.tasks import RANGES, Kind
from agentgym_rl.envs.tooluse.tool import CHECK, FINISH, ToolText, read_command
from agentgym_rl.envs.tooluse.wording import LIMIT

ENVS = ("weather", "movie", "academia")


@pytest.mark.parametrize(
    ("expected", "answer", "tolerance"),
    [
        (18.5, 18.5, 0),
        (18.5, "18.5 °C", 0),
        (18.5, [18.46], 0.05),
        (1200, "1,200 km", 0),
        (1200, "$1200.", 0),
        (-3, "-3", 0),
        (-3.2, "\u22123.2 °C", 0),
        (1234567.5, "1,234,567.5", 0),
        (2212345678, "2212345678", 0),
        (["2212345678"], [2212345678], 0),
        (0, 0.0, 0),
        ("Yes", "yes.", 0),
        ("Yes", True, 0),
        ("No", False, 0),
        ("No", "false", 0),
        (True, "Yes", 0),
        ("São  Paulo", "'são paulo'", 0),
        ("2020-01-02", ["2020-01-02"], 0),
        (["a b", "C"], ["c", "A  b"], 0),
        (["a b", "C"], "['C', 'a b']", 0),
        (["a b", "C"], '["C", "a b"]', 0),
        (["a b", "C"], "c, a b", 0),
        (["Lyon, France"], "Lyon, France", 0),
        ([3, 4.0], ["4", 3], 0),
        (["3"], 3, 0),
    ],
)
def test_answers_that_are_right(expected: Any, answer: Any, tolerance: float) -> None:
    assert matches(expected, answer, tolerance)


@pytest.mark.parametrize(
    ("expected", "answer", "tolerance"),
    [
        (18.5, 18.6, 0.05),
        (18.5, "about 18.5", 0),
        (18.5, "18.5 or 19", 0),
        (1, True, 0),
        (1, "one", 0),
        (35, "3,5", 0),
        (1200, "12,00", 0),
        (2212345678, 2212345679, 0),
        ([2212345678], [2212345679], 0),
        (1.0, 10**400, 0),
        (2, [2, 3], 0),
        ("Yes", "No", 0),
        ("Yes", "Yes and No", 0),
        ("Lyon", "Nice", 0),
        (["a", "b"], ["a"], 0),
        (["a", "b"], ["a", "b", "c"], 0),
        (["a", "b"], "[a, b", 0),
        (["a"], [], 0),
    ],
)
def test_answers_that_are_wrong(expected: Any, answer: Any, tolerance: float) -> None:
    assert not matches(expected, answer, tolerance)


SCALARS = st.one_of(st.text(max_size=12), st.booleans(), st.integers(), st.floats(allow_nan=False))
ANSWERS = st.one_of(SCALARS, st.lists(SCALARS, max_size=4))


@given(ANSWERS, ANSWERS)
def test_any_two_answers_can_be_compared(answer: Any, other: Any) -> None:
    matches(answer, other)
    assert matches(answer, answer) or answer == [] or isinstance(answer, str)


TOOLS = {
    "move": Tool("move", "Move.", {"to": {"type": "string"}, "fast": {"type": "boolean"}}, optional=("fast",)),
    "wait": Tool("wait", "Wait.", {"turns": {"type": ["string", "integer"]}}),
    CHECK.name: CHECK,
    FINISH.name: FINISH,
}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ('move with Action Input: {"to": "x"}', ("move", {"to": "x"})),
        ('  move   with Action Input:{"to": "x",\n "fast": true}', ("move", {"to": "x", "fast": True})),
        ("move with Action Input: {'to': 'x', 'fast': False}", ("move", {"to": "x", "fast": False})),
        ("wait with Action Input: {'turns': 3.0}", ("wait", {"turns": 3})),
        ("check_valid_actions with Action Input: {}", ("check_valid_actions", {})),
        ('finish with Action Input: {"answer": [1, "b"]}', ("finish", {"answer": [1, "b"]})),
    ],
)
def test_commands(command: str, expected: tuple[str, dict[str, Any]]) -> None:
    assert repr(read_command(TOOLS, command)) == repr(expected)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "no '<action> with Action Input"),
        ("move(to='x')", "no '<action> with Action Input"),
        ("fly with Action Input: {}", "there is no action 'fly'"),
        ("move with Action Input:", "must be one JSON object"),
        ("move with Action Input: x", "must be one JSON object"),
        ('move with Action Input: ["x"]', "must be one JSON object"),
        ('move with Action Input: {"to": "x"} and on', "must be one JSON object"),
        ('move with Action Input: {"to": NaN}', "must be one JSON object"),
        ("move with Action Input: {1: 2}", "must be one JSON object"),
        (f"move with Action Input: {'[' * 100_000}", "must be one JSON object"),
        (f'move with Action Input: {{"to": {"9" * 5000}}}', "must be one JSON object"),
        ("move with Action Input: {}", "'to' is a required property"),
        ('move with Action Input: {"to": 3}', "argument 'to'"),
        ('move with Action Input: {"to": "x", "now": 1}', "'now' was unexpected"),
        ('finish with Action Input: {"answer": null}', "argument 'answer'"),
        ('finish with Action Input: {"answer": [[1]]}', "argument 'answer'"),
    ],
)
def test_what_is_no_command(command: str, message: str) -> None:
    with pytest.raises(Refused) as refusal:
        read_command(TOOLS, command)
    assert message in str(refusal.value)
    assert len(str(refusal.value)) <= 250


def _add(counts: list[int], amount: int) -> str:
    if amount < 0:
        raise Refused("nothing is taken away")
    counts[0] += amount
    return f"now {counts[0]}"


TEXTS = ToolEnvTexts(
    about="You count.",
    hint="Count well.",
    example="none",
    licence="none",
    official=5,
    official_tasks="built in",
    missing="give data=<file>",
    goals={"count_up": "Count to {target}.", "number": "number {number}"},
    schemas={"amount": {"type": "integer", "description": "how much"}},
    tools={
        "add": ToolText("Add to the count.", "the count", {"amount": "amount"}),
        "shout": ToolText("Shout.", "noise"),
    },
)
COUNTING = TEXTS.functions({"add": _add, "shout": lambda counts: "A" * 5000}, {"shout": lambda text: "a"})


class CountingDraft(Draft[list[int]]):
    texts = TEXTS
    functions = COUNTING

    def start(self) -> list[int]:
        return [0]


def count_up(draft: CountingDraft) -> Problem[list[int]]:
    """Bring the count to a number and say it: three subgoals."""
    target = draft.rng.randint(1, 10**6)

    def progress(counts: list[int], answer: Any) -> float:
        return ((counts[0] > 0) + (counts[0] == target) + (answer == target)) / 3

    draft.call("add", amount=target)
    return draft.problem(draft.goal("count_up", target=target), progress, draft.state[0])


def counting_tasks(calls: int, kind: Kind) -> GeneratedTasks[list[int]]:
    return GeneratedTasks("counting", CountingDraft, {range(calls, calls + 1): (kind,)})


class Counting(ToolEnv[list[int]]):
    name = "counting"

    def __init__(self, style: Style = "agentgym", tasks: GeneratedTasks[list[int]] | None = None) -> None:
        super().__init__(style, CountingDraft, tasks or counting_tasks(2, count_up))


def test_a_goal_of_state_is_judged_at_the_end() -> None:
    env = Counting()
    (answer,) = env.oracle(Task("counting", 1000))[1:]
    target = json.loads(answer.partition("Input: ")[2])["answer"]
    text, steps = run_episode(
        env, 1000, call("add", amount=1), call("add", amount=-1), call("add", amount=target - 1), answer
    )
    assert text == (
        f"Now new trial starts.\nYou should perform actions to accomplish the goal: Count to {target}.\n"
        "Give me one action."
    )
    assert [step.info["raw_reward"] for step in steps] == pytest.approx([1 / 3, 1 / 3, 2 / 3, 1])
    assert [step.reward for step in steps] == [0, 0, 0, 1]
    assert [step.terminated for step in steps] == [False, False, False, True]
    assert [step.info["invalid"] for step in steps] == [False, True, False, False]
    assert steps[1].observation.text == "Observation: ERROR | nothing is taken away\nGive me one action."
    _, early = run_episode(env, 1000, call("add", amount=1), answer)
    assert (early[-1].reward, early[-1].terminated) == (0, True)
    assert early[-1].info["raw_reward"] == pytest.approx(2 / 3)
    assert run_episode(env, 1000, answer)[1][-1].info["raw_reward"] == pytest.approx(
        1 / 3
    )  # each session starts afresh


def test_long_results_are_cut_and_brief_in_the_compact_style() -> None:
    _, (step,) = run_episode(Counting(), 1000, call("shout"))
    assert len(step.observation.text) < LIMIT + 100
    assert f"(cut after {LIMIT} of 5000 characters)" in step.observation.text
    _, (brief, refused, listed) = run_episode(
        Counting("compact"), 1000, call("shout"), "shout", call("check_valid_actions")
    )
    assert brief.observation.text == "a"
    assert refused.observation.text.startswith("invalid: no '<action>")
    assert listed.observation.text == "add shout check_valid_actions finish"


def test_instructions_describe_every_tool() -> None:
    long, short = (Counting().spec.instructions[style] for style in ("agentgym", "compact"))
    assert "Name: add(amount)\nDescription: Add to the count.\nParameters:\n- amount (Type: integer): how much" in long
    assert "Returns: the count" in long and "Count well." in long
    assert "finish(answer)" in long and "check_valid_actions()" in long
    assert short == (
        "You count. Actions: add(amount), shout(), finish(answer). Reply `Action: <action> with Action Input: <JSON>`."
    )


def test_indices_and_their_errors() -> None:
    env = Counting()
    with pytest.raises(TaskNotFound, match="counting_4 is a task of AgentGym's: give data=<file>"):
        env.goal(Task("counting", 4))
    for index in (5, 999, 1500, 10**15, -1):
        with pytest.raises(TaskNotFound, match="valid are 1000 to 1499 and 2000 to 13999"):
            env.difficulty(Task("counting", index))
    with pytest.raises(TaskNotFound, match="movie_1000 is not a task of counting"):
        env.goal(Task("movie", 1000))
    assert env.difficulty(Task("counting", 1000)) == "calls 2"


def test_calls_out_of_order() -> None:
    env = Counting()
    with pytest.raises(ProtocolError):
        asyncio.run(env.step(call("shout")))
    assert run_episode(env, 1000, call("finish", answer="?"))[1][-1].done
    with pytest.raises(ProtocolError):
        asyncio.run(env.step(call("shout")))


def test_no_plan_is_no_oracle() -> None:
    def open_question(draft: CountingDraft) -> Problem[list[int]]:
        return Problem(goal=f"{draft.rng.random()}", start=draft.start, progress=lambda state, answer: 0.0, plan=())

    with pytest.raises(OracleUnavailable):
        Counting(tasks=counting_tasks(0, open_question)).oracle(Task("counting", 1002))


def test_a_kind_of_task_that_gives_nothing_is_an_error() -> None:
    with pytest.raises(EnvError, match="gave no task"):
        counting_tasks(2, lambda draft: draft.require(None)).problem(1000)


def test_frozen_splits_hold_no_task_twice() -> None:
    def few(draft: CountingDraft) -> Problem[list[int]]:
        return draft.ask("number", draft.rng.randrange(10), number=draft.rng.randrange(6000))

    tasks = counting_tasks(1, few)
    for split in ("train", "test"):
        assert len({tasks.problem(index).label for index in RANGES[split]}) == len(RANGES[split])
    backwards = [counting_tasks(1, few).problem(index).label for index in (1399, 1000)]
    assert backwards == [tasks.problem(index).label for index in (1399, 1000)]


def test_texts_and_code_of_tools_go_together() -> None:
    with pytest.raises(ValueError, match="lack a description or code: fly, shout"):
        TEXTS.functions({"add": _add, "fly": _add}, {})


def test_faulty_texts_are_named(tmp_path: Path) -> None:
    path = tmp_path / "env.toml"
    texts = "".join(f'{key} = ""\n' for key in ("about", "hint", "example", "licence", "missing", "official_tasks"))
    head = f'{texts}official = 1\n[tools.add]\nreturns = ""\n'
    for text, message in (
        ("", r"env\.toml > tools > add: key 'description' is missing"),
        ('description = ""\nparameters.amount = "number"', r"env\.toml: tools > add: there is no schema 'number'"),
        ('description = ""\ncost = 1', r"env\.toml > tools > add: unknown key 'cost'"),
    ):
        path.write_text(head + text)
        with pytest.raises(ValueError, match=message):
            read_texts(str(tmp_path / "tools.py"), ToolEnvTexts)


@pytest.mark.parametrize("name", ["weather", "movie", "academia", "todo", "sheet"])
def test_every_goal_has_its_code(name: str) -> None:
    folder = Path(tooluse.__file__).parent / name
    code = "".join(path.read_text() for path in folder.glob("*.py"))
    assert [goal for goal in read_texts(str(folder / "tools.py"), ToolEnvTexts).goals if f'"{goal}"' not in code] == []


@pytest.mark.parametrize("name", ["weather", "movie", "academia", "todo", "sheet"])
def test_every_kind_of_task_has_its_level(name: str) -> None:
    folder = Path(tooluse.__file__).parent / name
    code = "".join(path.read_text() for path in folder.glob("*.py"))
    kinds = set(re.findall(r"^def (\w+)\(draft: \w+\)", code, re.MULTILINE))
    assert kinds == {
        kind for level in read_texts(str(folder / "tools.py"), ToolEnvTexts).levels for kind in level.kinds
    }


def test_a_draft_carries_out_its_calls() -> None:
    draft = CountingDraft(random.Random(0))
    assert draft.call("add", amount=2) == "now 2"
    assert (draft.state, draft.start()) == ([2], [0])
    with pytest.raises(Refused):
        draft.call("add", amount=-1)


LINE = {
    "id": 0,
    "goal": "How warm is it?",
    "subgoals": [18.5],
    "additional_info": {"answer": 18.5, "init_config": {"current_date": "2023-06-15"}, "goal_type": 0, "tool": "x"},
    "difficulty": "hard",
}


def test_official_files(tmp_path: Path) -> None:
    path = tmp_path / "weather.jsonl"
    more = {**LINE, "additional_info": {"answer": "No", "init_config": None}}
    path.write_text(f"{json.dumps(LINE)}\n{json.dumps(more)}\n", encoding="utf-8")
    assert read_official(path) == [
        OfficialTask("How warm is it?", [18.5], 18.5, {"current_date": "2023-06-15"}),
        OfficialTask("How warm is it?", [18.5], "No", {}),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "holds no task"), ("{}", ":1 is no tool task"), (f"{json.dumps(LINE)}\n[", "line 2: not JSON")],
)
def test_faults_of_official_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "weather.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_official(path)
    with pytest.raises(ValueError, match=r"no file of tool tasks at .*other\.jsonl"):
        read_official(tmp_path / "other.jsonl")


@pytest.fixture(params=ENVS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


FEW = {"train": 1, "test": 1, "train_variants": 211, "val_variants": 23, "test_variants": 23}
"""Every how manyth task is looked at."""


def few(env: TextEnv, split: str) -> list[Task]:
    return [Task(env.spec.name, index) for index in env.spec.splits[split][:: FEW[split]]]


@pytest.mark.slow
def test_tasks_are_solvable_graded_and_told_apart(name: str) -> None:
    async def look() -> None:
        env = make(name)
        assert {split: len(env.spec.splits[split]) for split in FEW} == {
            "train": 400,
            "test": 100,
            "train_variants": 10_000,
            "val_variants": 1_000,
            "test_variants": 1_000,
        }
        owners: dict[str, str] = {}
        for split in env.spec.splits:
            levels: Counter[str] = Counter()
            for task in few(env, split):
                goal, plan = env.goal(task), env.oracle(task)
                levels[env.difficulty(task)] += 1
                assert "\n" not in goal
                low, _, high = env.difficulty(task).removeprefix("calls ").partition("-")
                assert int(low) <= len(plan) <= int(high or low) < env.spec.max_turns
                assert owners.setdefault(goal, split) == split
                first = await env.reset(task)
                seen = first.text
                for command in plan:
                    for value in leaves(json.loads(command.partition("Input: ")[2])):
                        assert value in seen or command.startswith("finish") or value.count("-") == 2, (task, command)
                    step = await env.step(command)
                    assert not step.info["invalid"] and len(step.observation.text) < 2000
                    seen += step.observation.text
                assert step.terminated and env.spec.success(step.reward) and step.info["raw_reward"] == 1
            assert max(levels.values()) - min(levels.values()) <= 1
        assert sum(split in ("train", "test") for split in owners.values()) == 500

    asyncio.run(look())


def leaves(arguments: dict[str, Any]) -> list[str]:
    return [str(value) for value in arguments.values()]


def test_one_answer_to_all_tasks_earns_nothing(name: str) -> None:
    """No one answer that needs no call solves more than a few tasks."""
    env = make(name)
    for answer in ("Yes", "No", 0, 1, 3, "moderate", ""):
        won = sum(
            run_episode(env, task.index, call("finish", answer=answer))[1][-1].reward for task in few(env, "test")
        )
        assert won <= 15, answer


COMMANDS = st.one_of(
    st.text(max_size=30),
    st.builds(call, st.sampled_from(["finish", "get_elevation", "get_movie_cast", "loadPaperNet", "neighbourCheck"])),
    st.builds(lambda answer: call("finish", answer=answer), ANSWERS),
)


@settings(max_examples=swept(40), deadline=None)
@given(st.sampled_from(ENVS), st.integers(1000, 1499), st.lists(COMMANDS, max_size=8))
def test_both_wordings_tell_the_same_story(name: str, index: int, actions: list[str]) -> None:
    first, long = run_episode(make(name), index, *actions)
    goal, short = run_episode(make(name, style="compact"), index, *actions)
    assert goal in first
    assert [(step.reward, step.done, step.info) for step in long] == [(s.reward, s.done, s.info) for s in short]


def garbled(rng: random.Random, tools: tuple[Tool, ...], values: list[Any]) -> str:
    """A call of a random tool with random arguments, sometimes broken; rarely ``finish``."""
    tool = rng.choice(tools)
    if tool is FINISH and rng.random() < 0.9:
        return call("check_valid_actions")
    strange = ["", "x" * 3000, -1, 0, 10**40, 1e308, 12.5, "2020-02-30", "0001-01-01", "9999-12-31", None, True, [], {}]
    arguments = {each: rng.choice(values if rng.random() < 0.7 else strange) for each in tool.parameters}
    if rng.random() < 0.1:
        arguments["more"] = 1
    text = call(tool.name, **arguments)
    return text if rng.random() < 0.9 else text[: rng.randrange(len(text) + 1)]


@pytest.mark.sweep
def test_random_walks_do_no_harm(name: str) -> None:
    async def wander() -> None:
        rng = random.Random(name)
        counts: Counter[bool] = Counter()
        env = make(name)
        values: list[Any] = []
        for task in few(env, "test"):
            values += [
                value for command in env.oracle(task) for value in json.loads(command.partition("Input: ")[2]).values()
            ]
        while counts.total() < swept(4_000):
            await env.reset(Task(name, rng.choice(RANGES["test"])))
            total = 0.0
            for _ in range(40):
                step = await env.step(garbled(rng, env.spec.tools, values))
                counts[step.info["invalid"]] += 1
                total += step.reward
                assert len(step.observation.text) <= LIMIT + 100
                if step.done:
                    break
            assert total in (0.0, 1.0)
        assert min(counts.values()) > swept(200)

    asyncio.run(wander())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "style"), [("weather", "compact"), ("movie", "agentgym"), ("academia", "compact")])
def test_the_checker_passes(name: str, style: Style) -> None:
    report = check(name, split="test_variants", n=4, options={"style": style})
    assert report.passed, report


@pytest.mark.parametrize(
    "answer", ["[{[1]: 2}]", "[{{}}]", "[" * 5000, "[" + "9" * 5000 + "]", "[0x" + "f" * 3600 + "]"]
)
def test_no_answer_breaks_the_comparison(answer: str) -> None:
    for expected in ([1, 2], 1, "one", True):
        assert not matches(expected, answer)
