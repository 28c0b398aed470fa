"""Files of tasks for environments that have tasks of their own."""

import asyncio
import json

import pytest

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.core import EnvFault, TaskNotFound

TODO = {"instruction": "How many projects are there?", "start": 1405, "split": "test", "check": {"answer": 4}}
SQL = {"instruction": "How many tables are there?", "start": 20005, "query": "SELECT count(*) FROM sqlite_master"}
FINISH = 'finish with Action Input: {"answer": "done"}'


@pytest.fixture
def opened(tmp_path):
    """Makes an environment whose tasks are these."""

    def make_it(env, *tasks, **options):
        path = tmp_path / "tasks.jsonl"
        path.write_text("".join(f"{json.dumps(task)}\n" for task in tasks))
        return make(env, tasks=str(path), **options)

    return make_it


def rewards(env, index, *commands):
    async def episode():
        await env.reset(Task(env.name, index))
        return [(await env.step(command)).reward for command in commands]

    return asyncio.run(episode())


def project_of(index):
    """The id of the first project of a task's account."""
    plan = make("todo")._tasks.problem(index).start().get_projects()
    return plan[0]["id"], plan[0]["is_favorite"]


def test_a_task_begins_as_another_does_and_is_checked_by_an_answer(opened):
    env = opened("todo", TODO, {**TODO, "start": 1000})
    built_in = make("todo")
    assert env.spec.splits == {"train": (), "test": (0, 1)} and env.difficulty(Task("todo", 0)) == "written"
    assert env.goal(Task("todo", 0)) == f"{TODO['instruction']} ({built_in._tasks.problem(1405).context})"
    assert env.goal(Task("todo", 0)) != env.goal(Task("todo", 1)), "an account each"
    answers = [f"finish with Action Input: {json.dumps({'answer': answer})}" for answer in (4, 5)]
    assert [rewards(env, 0, answer) for answer in answers] == [[1.0], [0.0]]


def test_a_change_is_checked_by_what_a_call_gives(opened):
    project, favorite = project_of(1405)
    change = ["update_project", {"project_id": project, "is_favorite": str(not favorite)}]
    rows = make("todo")._tasks.problem(1405).start().get_projects()
    rows[0]["is_favorite"] = not favorite
    check = {"state": {"tool": "get_projects"}, "equals": rows}
    task = {**TODO, "check": check, "plan": [change, ["finish", {"answer": "done"}]]}
    env = opened("todo", task, {**task, "setup": [change], "plan": []})
    assert rewards(env, 0, *env.oracle(Task("todo", 0))) == [0.0, 1.0]
    assert rewards(env, 0, FINISH) == [0.0]
    assert rewards(env, 1, FINISH) == [1.0], "a setup comes first"


def test_a_setup_that_fails_is_no_fault_of_the_agent(opened):
    env = opened("todo", {**TODO, "setup": [["get_tasks", {"project_id": "none"}]]})
    with pytest.raises(EnvFault, match="todo_0: its setup, get_tasks, failed: project 'none' does not exist"):
        rewards(env, 0)


def test_a_question_about_a_database(opened):
    env = opened("sqlgym", SQL, {**SQL, "start": 20000})
    task = Task("sqlgym", 0)
    assert env.spec.splits == {"train": (0, 1), "test": ()} and SQL["instruction"] in env.goal(task)
    assert env.goal(task).split(":")[0] == make("sqlgym").goal(Task("sqlgym", 20005)).split(":")[0]
    assert rewards(env, 0, *env.oracle(task)) == [1.0]
    assert rewards(env, 0, "SELECT 0") == [0.0]


@pytest.mark.parametrize(
    ("env", "task", "says"),
    [
        (
            "todo",
            {**TODO, "start": 7},
            r"tasks.jsonl, task 0: start is 7, but todo has no such task; give one like 1000",
        ),
        ("todo", {**TODO, "start": "1405"}, "start should be the index of a task, not '1405'"),
        ("todo", {**TODO, "check": {"python": "a.py:b"}}, "check should have one of answer, state"),
        (
            "weather",
            {**TODO, "start": 1000, "setup": [["fly", {}]]},
            ":1: there is no function 'fly'; there are get_user",
        ),
        ("todo", {**TODO, "check": {"state": {"tool": "x"}, "equals": 1}}, "there is no function 'x'"),
        ("todo", {**TODO, "plan": [["fly", {}]]}, "tasks.jsonl:1: there is no function 'fly'"),
        ("todo", {**TODO, "setup": [["get_tasks", {}]]}, "get_tasks: 'project_id' is a required property"),
        ("todo", {**TODO, "setup": [["finish", {"answer": 1}]]}, "there is no function 'finish'"),
        ("todo", {**TODO, "check": {"state": {"tool": "get_tasks", "arguments": []}, "equals": 1}}, "check wants"),
        ("todo", {**TODO, "check": {"answer": 4, "tolerance": "0.5"}}, "number that is not negative, not '0.5'"),
        ("todo", {**TODO, "check": {"answer": 4, "tolerance": -1}}, "number that is not negative, not -1"),
        ("sqlgym", {**SQL, "start": 7}, "start is 7, but sqlgym has no such task; give one like 20000"),
        ("sqlgym", {**SQL, "query": " "}, "query should be the text of a query that answers"),
        ("sqlgym", {**SQL, "check": {"answer": 1}}, "unknown key 'check'; the keys are difficulty, instruction, query"),
    ],
)
def test_malformed_tasks_are_one_line(opened, env, task, says):
    with pytest.raises(ValueError, match=says):
        opened(env, task)


def test_lines_are_counted_as_an_editor_counts_them(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text(f"{json.dumps(TODO)}\n\n{json.dumps({**TODO, 'plan': [['fly', {}]]})}\n")
    with pytest.raises(ValueError, match=r"tasks.jsonl:3: there is no function 'fly'"):
        make("todo", tasks=str(path))


def test_there_are_no_others(opened):
    for env, task in (("academia", {**TODO, "start": 1000}), ("sqlgym", SQL)):
        with pytest.raises(TaskNotFound, match=f"{env} has no task 1: valid are 0 to 0"):
            opened(env, task).goal(Task(env, 1))
