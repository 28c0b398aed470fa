"""Panels are the same everywhere, and say so by their digest."""

import hashlib
from collections import Counter as Tally
from random import Random

import pytest
import toy
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.data.panels import _shuffled, digest, label, sample, select
from agentgym_rl.envs import Task, make

pytestmark = pytest.mark.usefixtures("toys")


def test_whole_split_in_order():
    panel = select("counter", "test")
    assert panel.item_ids == tuple(f"counter_{index}" for index in range(40, 50))
    assert (panel.env, panel.name) == ("counter", "test")


def test_digest_is_over_id_goal_and_difficulty():
    lines = "counter_3\tcount to 1\tlength 1\n", "counter_9\tcount to 1\tlength 1\n"
    env = make("counter")
    tasks = [task for task in sample(env, "train") if task.index in (3, 9)]
    assert digest(env, tasks) == hashlib.sha256("".join(lines).encode()).hexdigest()[:12]


@pytest.mark.parametrize(("env", "index", "revision"), [("textcraft", 3, 1), ("textcraft", 950_044, 2), ("maze", 3, 1)])
def test_digest_tells_games_apart_that_have_had_the_same_id_goal_and_difficulty(env, index, revision, monkeypatch):
    environment, task = make(env), Task(env, index)
    assert environment.revision(task) == revision
    before = digest(environment, [task])
    monkeypatch.setattr(type(environment), "revision", lambda self, task: 7)
    assert digest(environment, [task]) != before


def test_draw_is_seeded_sorted_and_without_replacement():
    panel = select("counter", "train", n=10, seed=1)
    indices = [int(item.split("_")[1]) for item in panel.item_ids]
    assert len(set(indices)) == 10
    assert indices == sorted(indices)
    assert panel == select("counter", "train", n=10, seed=1)
    assert panel.digest != select("counter", "train", n=10, seed=2).digest
    assert set(select("counter", "train", n=4, seed=1).item_ids) < set(panel.item_ids)


def test_drawing_all_gives_the_whole_split():
    assert select("counter", "train", n=40).item_ids == select("counter", "train").item_ids


@pytest.mark.parametrize(
    ("globs", "targets"),
    [(["length 2"], {2}), (["length [13]"], {1, 3}), (["length 1", "* 3"], {1, 3}), (["*"], {1, 2, 3})],
)
def test_difficulty_is_matched_by_glob(globs, targets):
    env = make("counter")
    assert isinstance(env, toy.Counter)
    assert {env.target(task) for task in sample(env, "train", globs)} == targets
    assert {env.target(task) for task in sample(env, "train", globs, n=12)} == targets


def test_a_vast_split_is_drawn_from_without_being_walked():
    toy.Vast.goals = 0
    panel = select("vast", "train", ["length 2"], n=20)
    assert len(panel.item_ids) == 20
    assert toy.Vast.goals == 20


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"split": "dev"}, "no split 'dev'; its splits: train, test"),
        ({"split": "test", "n": 11}, "n is 11, but counter test has only 10 tasks$"),
        ({"split": "test", "n": 9, "difficulty": ["length 1"]}, "only 3 tasks with a difficulty like length 1"),
        ({"split": "test", "difficulty": ["depth*"]}, "like depth.*; there are: length 1, length 2, length 3"),
        ({"split": "test", "difficulty": ["depth*"], "n": 2}, "there are: length 1, length 2, length 3"),
        ({"split": "test", "n": 0}, "n is 0"),
    ],
)
def test_bad_selections_are_explained(arguments, says):
    with pytest.raises(ValueError, match=says):
        select("counter", **arguments)


def test_an_empty_split_is_told(tmp_path):
    """Files of tasks may have none for the split ``test``, which every environment has."""
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"goal": "a", "split": "train"}\n')
    with pytest.raises(ValueError, match="harness test has no task; the splits have: train 1, test 0"):
        select("harness", "test", options={"tasks": str(tasks)})


def test_label_fits_metric_keys():
    assert label("test", ["depth [12]", "*"], 20, 3) == "test-depth_12-any-n20-seed3"


@given(st.integers(0, 200), st.integers())
def test_shuffle_is_a_permutation(size, seed):
    assert sorted(_shuffled(size, Random(seed))) == list(range(size))


def test_shuffle_is_fair():
    orders = Tally(tuple(_shuffled(3, Random(seed))) for seed in range(6000))
    assert len(orders) == 6
    assert all(800 < count < 1200 for count in orders.values())


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ("textcraft", "other goals here; for AgentGym's give recipes and tasks_of (docs/envs/textcraft.md)"),
        ("webshop", "goals of the built-in shop here; for WebShop's give data (docs/envs/webshop.md)"),
        ("webarena", "tasks on the built-in sites here; for WebArena's give tasks and sites"),
        ("maze", None),
    ],
)
def test_ids_that_mean_other_tasks_here_say_so(env, says, tmp_path, caplog):
    path = tmp_path / f"{env}_test.json"
    path.write_text(f'[{{"item_id": "{env}_3"}}]')
    assert select(env, str(path)).item_ids == (f"{env}_3",)
    assert caplog.text == "" if says is None else says in caplog.text


@pytest.mark.parametrize("item_id", ["sheet_3", "wordle_3", "alfworld_3", "searchqa_3", "sqlgym_3"])
def test_ids_whose_tasks_are_not_here_are_refused(item_id, tmp_path):
    path = tmp_path / "ids.json"
    path.write_text(f'[{{"item_id": "{item_id}"}}]')
    with pytest.raises(ValueError, match=f"{item_id} is a task of AgentGym's: give"):
        select(item_id.partition("_")[0], str(path))
