"""Todo: tools on an account, tasks that ask and tasks that change, AgentGym's files."""

import asyncio
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import some, swept
from tool_sessions import call, run_episode

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.core import OracleUnavailable, ProtocolError, Style, TaskNotFound
from agentgym_rl.envs.tooluse.todo import TASKS, Todo
from agentgym_rl.envs.tooluse.todo.draft import CATALOGUE
from agentgym_rl.envs.tooluse.todo.tools import FUNCTIONS

SIZES = {"train": 400, "test": 100, "train_variants": 10_000, "val_variants": 1_000, "test_variants": 1_000}
STEPS = {"train": 1, "test": 1, "train_variants": 499, "val_variants": 49, "test_variants": 49}


def few(split: str) -> list[int]:
    return list(Todo().spec.splits[split][:: STEPS[split]])


def find(text: str, env: Todo | None = None) -> tuple[int, list[str]]:
    """Index and plan of a training task whose goal has these words."""
    env = env or Todo()
    tasks = (Task("todo", index) for index in env.spec.splits["train"])
    task = next(task for task in tasks if text in env.goal(task))
    return task.index, env.oracle(task)


GOAL = 'Set the due date of the task "Collect the drama costumes" in the project School Clubs to 4 days from today.'

ACTIONS = (
    call("get_user_current_date"),
    call("get_projects"),
    call("get_tasks", project_id="Family"),
    call("get_tasks", project_id="2229845380"),
    call("update_task", task_id="2996081561", due_date="2022-07-06"),
    call("finish", answer="done"),
)


def observed(text: str) -> str:
    return f"Observation: {text}\nGive me one action."


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (
            "agentgym",
            [
                "Now new trial starts.\n"
                f"You should perform actions to accomplish the goal: {GOAL}\n"
                "Give me one action.",
                observed("2022-07-02"),
                observed(
                    "[{'id': '2229845380', 'order': 1, 'color': 'charcoal', 'name': 'School Clubs', "
                    "'is_favorite': False}, "
                    "{'id': '2248347372', 'order': 2, 'color': 'charcoal', 'name': 'Home Repairs', "
                    "'is_favorite': True}, "
                    "{'id': '2247148193', 'order': 3, 'color': 'charcoal', 'name': 'Camping Trip', "
                    "'is_favorite': True}, "
                    "{'id': '2284151006', 'order': 4, 'color': 'charcoal', 'name': 'Fitness', 'is_favorite': False}, "
                    "{'id': '2227074198', 'order': 5, 'color': 'charcoal', 'name': 'Errands', 'is_favorite': True}]"
                ),
                observed("ERROR | project 'Family' does not exist; get_projects gives the ids"),
                observed(
                    "[{'id': '2996081561', 'order': 1, 'content': 'Collect the drama costumes', "
                    "'is_completed': False, 'priority': 1, 'due_date': '2022-06-30'}, "
                    "{'id': '2940511533', 'order': 2, 'content': 'Attend the chess club', "
                    "'is_completed': False, 'priority': 1, 'due_date': '2022-07-11'}, "
                    "{'id': '2984067407', 'order': 3, 'content': 'Rehearse with the choir', "
                    "'is_completed': False, 'priority': 4, 'due_date': '2022-07-11'}]"
                ),
                observed(
                    "{'message': 'Update the task successfully', 'task': {'id': '2996081561', 'order': 1, "
                    "'content': 'Collect the drama costumes', 'is_completed': False, 'priority': 1, "
                    "'due_date': '2022-07-06'}}"
                ),
                observed("done"),
            ],
        ),
        (
            "compact",
            [
                GOAL,
                "2022-07-02",
                "2229845380 School Clubs, 2248347372 Home Repairs favorite, 2247148193 Camping Trip favorite, "
                "2284151006 Fitness, 2227074198 Errands favorite",
                "invalid: project 'Family' does not exist; get_projects gives the ids",
                "2996081561 Collect the drama costumes p1 2022-06-30, 2940511533 Attend the chess club p1 2022-07-11, "
                "2984067407 Rehearse with the choir p4 2022-07-11",
                "done",
                "done",
            ],
        ),
    ],
)
def test_transcript(style: Style, expected: list[str]) -> None:
    first, steps = run_episode(Todo(style), 1005, *ACTIONS)
    assert [first, *(step.observation.text for step in steps)] == expected
    assert [step.reward for step in steps] == [0.0] * 5 + [1.0]
    assert [step.info["raw_reward"] for step in steps] == [0.0] * 4 + [1.0] * 2
    assert [step.info["invalid"] for step in steps] == [False, False, True, False, False, False]
    assert [step.terminated for step in steps] == [False] * 5 + [True]


@pytest.mark.sweep
@pytest.mark.parametrize(("split", "style"), [("train", "compact"), ("test", "agentgym")])
def test_oracle_solves(split: str, style: Style) -> None:
    env = Todo(style)
    for index in some(few(split)):
        plan = env.oracle(Task("todo", index))
        low, _, high = env.difficulty(Task("todo", index)).removeprefix("calls ").partition("-")
        assert int(low) <= len(plan) <= int(high or low) <= env.spec.max_turns
        _, steps = run_episode(env, index, *plan)
        assert len(steps) == len(plan)
        assert not any(step.info["invalid"] for step in steps)
        assert [step.reward for step in steps] == [0.0] * (len(plan) - 1) + [1.0], env.goal(Task("todo", index))


@pytest.mark.slow
def test_splits_have_their_sizes_and_share_no_goal() -> None:
    env = Todo()
    assert {split: len(indices) for split, indices in env.spec.splits.items()} == SIZES
    goals = Counter(env.goal(Task("todo", index)) for split in SIZES for index in few(split))
    assert max(goals.values()) == 1
    starts = [
        run_episode(env, index, call("get_projects"))[1][0].observation.text for index in few("train") + few("test")
    ]
    assert len(set(starts)) == len(starts)


def test_every_kind_of_task_occurs() -> None:
    env = Todo()
    counts = Counter(env.difficulty(Task("todo", index)) for index in few("train"))
    assert counts == {"calls 2-4": 100, "calls 5-6": 100, "calls 7-8": 100, "calls 9-12": 100}
    assert all(len(kinds) <= 100 for kinds in TASKS.levels.values())


def test_no_task_is_in_two_projects() -> None:
    names = Counter(content for project in CATALOGUE.projects.values() for content in project.tasks)
    assert max(names.values()) == 1
    assert {project.place for project in CATALOGUE.projects.values()} <= CATALOGUE.places.keys()


@pytest.mark.parametrize("answer", ["done", "", 0, ["I did it"]])
def test_an_operation_is_judged_by_the_account_whatever_the_answer(answer: Any) -> None:
    index, plan = find("Mark the task")
    assert run_episode(Todo(), index, *plan[:-1], call("finish", answer=answer))[1][-1].reward == 1.0
    assert run_episode(Todo(), index, call("finish", answer=answer))[1][-1].reward == 0.0


def test_changing_anything_else_fails() -> None:
    for words in ("Mark the task", "How many tasks are in the project"):
        index, plan = find(words)
        project = json.loads(result_of(index, "get_projects"))[0]
        like = call("update_project", project_id=project["id"], is_favorite=str(not project["is_favorite"]))
        back = call("update_project", project_id=project["id"], is_favorite=str(project["is_favorite"]))
        assert run_episode(Todo(), index, like, *plan)[1][-1].reward == 0.0
        assert run_episode(Todo(), index, like, back, *plan)[1][-1].reward == 1.0


def result_of(index: int, name: str, **arguments: object) -> str:
    """A result as JSON."""
    (step,) = run_episode(Todo(), index, call(name, **arguments))[1]
    text = step.observation.text.removeprefix("Observation: ").removesuffix("\nGive me one action.")
    return text.replace("'", '"').replace("True", "true").replace("False", "false")


def test_completing_is_not_deleting() -> None:
    index, plan = find("Mark the task")
    deleted = [action.replace("complete_task", "delete_task") for action in plan]
    assert run_episode(Todo(), index, *deleted)[1][-1].reward == 0.0


def test_a_question_wants_the_right_answer() -> None:
    index, plan = find("Which tasks in all projects are due before")
    names = json.loads(plan[-1].partition("Input: ")[2])["answer"]
    assert run_episode(Todo(), index, call("finish", answer=names[::-1]))[1][-1].reward == 1.0
    assert run_episode(Todo(), index, call("finish", answer=[name.upper() for name in names]))[1][-1].reward == 1.0
    assert run_episode(Todo(), index, call("finish", answer=[*names, "Sleep"]))[1][-1].reward == 0.0
    assert run_episode(Todo(), index, call("finish", answer=[]))[1][-1].reward == 0.0


def test_a_task_with_a_question_wants_both() -> None:
    index, plan = find("Then tell me how many tasks are left")
    _, steps = run_episode(Todo(), index, *plan[:-1], call("finish", answer="many"))
    assert steps[-1].reward == 0.0 and 0 < steps[-1].info["raw_reward"] < 1
    assert run_episode(Todo(), index, plan[-1])[1][-1].reward == 0.0
    assert run_episode(Todo(), index, *plan)[1][-1].reward == 1.0


@pytest.mark.parametrize(
    "action",
    [
        "",
        "get_projects",
        "get_projects with Action Input: []",
        call("get_projects", all=True),
        call("get_tasks"),
        call("get_tasks", project_id="1"),
        call("get_task_description", task_id="0"),
        call("complete_task", task_id=2996081561),
        call("complete_task", task_id="2229845380"),
        call("update_task", task_id="2996081561", due_date="tomorrow"),
        call("update_task", task_id="2996081561", due_date="2022-02-30"),
        call("update_project", project_id="2229845380", is_favorite="maybe"),
        call("fly"),
    ],
)
def test_what_cannot_be_done_is_invalid_and_changes_nothing(action: str) -> None:
    _, steps = run_episode(Todo(), 1005, action, *ACTIONS)
    assert steps[0].info["invalid"] and steps[0].reward == 0.0
    assert steps[-1].reward == 1.0


def test_gone_tasks_are_gone() -> None:
    task = {"task_id": "2996081561"}
    for gone in ("complete_task", "delete_task"):
        _, steps = run_episode(
            Todo(), 1005, call(gone, **task), call("get_tasks", project_id="2229845380"), call(gone, **task)
        )
        assert "2996081561" not in steps[1].observation.text
        assert [step.info["invalid"] for step in steps] == [False, False, True]


def test_details_of_a_task() -> None:
    _, steps = run_episode(
        Todo("compact"),
        1005,
        call("get_user_current_location"),
        call("get_task_duration", task_id="2996081561"),
        call("get_task_description", task_id="2996081561"),
    )
    texts = [step.observation.text for step in steps]
    assert texts[0].isalpha()
    assert texts[1].endswith("(minute)")
    assert texts[2].startswith("- Place: ") and "- Bring: two large bags - Contact: " in texts[2]


def test_step_out_of_order() -> None:
    env = make("todo")
    assert isinstance(env, Todo)
    with pytest.raises(ProtocolError):
        asyncio.run(env.step(ACTIONS[0]))
    run_episode(env, 1005, call("finish", answer=""))
    with pytest.raises(ProtocolError):
        asyncio.run(env.step(ACTIONS[0]))


@pytest.mark.parametrize("index", [0, 154])
def test_official_index_names_the_options(index: int) -> None:
    with pytest.raises(TaskNotFound, match=r"official and projects, .*todo\.jsonl"):
        Todo().goal(Task("todo", index))


@pytest.mark.parametrize("index", [155, 999, 1_500, 14_000, -1])
def test_index_outside_the_environment(index: int) -> None:
    with pytest.raises(TaskNotFound, match=f"todo has no task {index}"):
        Todo().difficulty(Task("todo", index))


IDS = ["2229845380", "2248347372", "2996081561", "2940511533", "2984067407", "", "x"]
NAMES = [*FUNCTIONS, "check_valid_actions", "qwzx"]
CALLS = st.builds(
    lambda name, number, due, like: call(
        name,
        **{
            key: {"project_id": number, "task_id": number, "due_date": due, "is_favorite": like}[key]
            for key in (FUNCTIONS[name].tool.parameters if name in FUNCTIONS else ())
        },
    ),
    st.sampled_from(NAMES),
    st.sampled_from(IDS),
    st.sampled_from(["2022-07-06", "9999-12-31", "0001-01-01", "soon"]),
    st.sampled_from(["True", "False", "no"]),
)


@settings(max_examples=swept(60), deadline=None)
@given(st.lists(st.one_of(CALLS, st.text(max_size=30)), min_size=5, max_size=60), st.booleans())
def test_a_walk_is_answered_briefly_and_can_be_replayed(actions: list[str], finish: bool) -> None:
    actions = [*actions, call("finish", answer="done")] if finish else actions
    env = Todo()
    _, steps = run_episode(env, 1005, *actions)
    assert run_episode(env, 1005, *actions)[1] == steps
    assert sum(step.reward for step in steps) in (0.0, 1.0)
    assert all(0.0 <= step.info["raw_reward"] <= 1.0 and len(step.observation.text) < 4_000 for step in steps)
    assert [step.info for step in run_episode(Todo("compact"), 1005, *actions)[1]] == [step.info for step in steps]


@pytest.mark.sweep
def test_long_walks_at_random() -> None:
    rng = random.Random(0)
    env = Todo("compact")
    for index in some(few("train")[::10]):
        plan = env.oracle(Task("todo", index))
        pool = [*plan[:-1], *(action.replace("complete", "delete") for action in plan[:-1]), "qwzx", "{}", "finish"]
        _, steps = run_episode(env, index, *rng.choices(pool, k=250))
        assert all(step.reward == 0.0 and not step.done for step in steps)


def official(folder: Path) -> dict[str, str]:
    """Three tasks in the form of AgentGym's files."""
    listed = [
        {
            "name": "Pets",
            "is_favorite": False,
            "tasks": [
                {
                    "content": name,
                    "description": f"- Place: {place}",
                    "due_date": "2020-02-03",
                    "duration": 20,
                    "duration_unit": "minute",
                    "priority": 2,
                }
                for name, place in (("Feed the cat", "Home"), ("Walk the dog", "Park"))
            ],
        }
    ]
    pets = {"order": 1, "color": "charcoal", "name": "Pets", "is_favorite": False}
    rows = [
        {"order": order, "content": name, "is_completed": False, "priority": 2, "due_date": "2020-02-03"}
        for order, name in enumerate(("Feed the cat", "Walk the dog"), start=1)
    ]
    tasks: list[tuple[str, object, object]] = [
        ("How many tasks are in Pets? ", 2, {"projects": [pets], "tasks": rows}),
        ("Delete the task Feed the cat.", "done", {"projects": [pets], "tasks": rows[1:]}),
        ("Make Pets a favorite and name it.", "Pets", {"projects": [{**pets, "is_favorite": True}], "tasks": rows}),
    ]
    config = {"current_date": "2020-02-01", "current_location": "Rome"}
    lines = [
        {"id": 0, "goal": goal, "subgoals": [answer], "additional_info": {"answer": state, "init_config": config}}
        for goal, answer, state in tasks
    ]
    (folder / "todo.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "projects.json").write_text(json.dumps(listed))
    return {"official": str(folder / "todo.jsonl"), "projects": str(folder / "projects.json")}


def test_official_tasks(tmp_path: Path) -> None:
    env = Todo(**official(tmp_path))
    tasks = [Task("todo", index) for index in range(3)]
    assert env.goal(tasks[0]) == "How many tasks are in Pets? (today 2020-02-01)"
    assert [env.difficulty(task) for task in tasks] == ["question", "change", "change and question"]
    assert sorted({index for indices in env.spec.splits.values() for index in indices}) == [0, 1, 2]
    project, cat = "2200000001", "2900000001"
    assert run_episode(env, 0, call("finish", answer="2"))[1][-1].reward == 1.0
    assert run_episode(env, 0, call("delete_task", task_id=cat), call("finish", answer=2))[1][-1].reward == 0.0
    for gone in ("delete_task", "complete_task"):
        assert run_episode(env, 1, call(gone, task_id=cat), call("finish", answer="done"))[1][-1].reward == 1.0
    like = call("update_project", project_id=project, is_favorite="True")
    assert run_episode(env, 2, like, call("finish", answer="pets"))[1][-1].reward == 1.0
    assert run_episode(env, 2, like, call("finish", answer="done"))[1][-1].reward == 0.0
    assert run_episode(env, 2, call("get_user_current_date"))[1][0].observation.text.startswith(
        "Observation: 2020-02-01"
    )
    with pytest.raises(OracleUnavailable):
        env.oracle(tasks[0])
    for index in (3, 1000):
        with pytest.raises(TaskNotFound, match="valid are AgentGym's 0 to 2"):
            env.goal(Task("todo", index))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("todo.jsonl", "", "holds no task"),
        ("todo.jsonl", '{"goal": 1}', r"todo\.jsonl:1 is no "),
        (
            "projects.json",
            '[{"name": "Pets"}]',
            r"projects\.json is no list of AgentGym's projects: KeyError",
        ),
        ("projects.json", "[", r"projects\.json is no list"),
    ],
)
def test_faulty_official_files_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    paths = official(tmp_path)
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        Todo(**paths)


def test_an_official_task_without_a_subgoal_is_named(tmp_path: Path) -> None:
    paths = official(tmp_path)
    first, *others = Path(paths["official"]).read_text().splitlines()
    Path(paths["official"]).write_text("\n".join([*others, json.dumps({**json.loads(first), "subgoals": []})]))
    with pytest.raises(ValueError, match=r"todo\.jsonl:3 is no tool task of AgentGym"):
        Todo(**paths)


def test_official_files_go_together(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give both"):
        Todo(official=official(tmp_path)["official"])
    with pytest.raises(ValueError, match="no file"):
        Todo(official=str(tmp_path / "none"), projects=official(tmp_path)["projects"])
