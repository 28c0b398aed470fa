"""A list of lessons whose numbers never come again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.rollout.playbook import Form, Op, Operation, Playbook

texts = st.sampled_from([f"Rule {letter}." for letter in "abcdef"])
operations = st.lists(
    st.tuples(
        st.sampled_from(["maze", "counter"]),
        st.builds(Operation, st.sampled_from(Op), texts, st.integers(0, 8)),
        st.integers(0, 3),
    ),
    max_size=30,
)


def applied(plan):
    """The playbook after a plan, and every id with the texts that it had at birth."""
    playbook, born = Playbook(), []
    for step, (env, operation, most) in enumerate(plan):
        ids = {lesson.id for lesson in playbook.lessons}
        playbook.apply(operation, env, step, "maze_1")
        born += [lesson.id for lesson in playbook.lessons if lesson.id not in ids]
        if most:
            playbook.cut(most, 1500)
            assert all(len(playbook.of(env)) <= most for env in ("maze", "counter"))
    return playbook, born


@given(operations)
def test_an_id_never_comes_again(plan):
    playbook, born = applied(plan)
    assert len(set(born)) == len(born)
    ids = [lesson.id for lesson in playbook.lessons]
    assert ids == sorted(ids) and len({(lesson.env, lesson.text) for lesson in playbook.lessons}) == len(ids)


@given(operations)
def test_it_comes_back_from_its_file(plan):
    playbook, _ = applied(plan)
    again = Playbook.from_dict(json.loads(json.dumps(playbook.to_dict())))
    assert again == playbook and again.digest == playbook.digest


@given(st.lists(st.tuples(st.sampled_from(["ADD", "UPDATE"]), st.integers(1, 6)), max_size=12), st.data())
def test_it_is_what_the_official_list_is_without_deletions(plan, data):
    """Of youtu-agent's ``_batch_update``: a dict, in which a new id follows from the number of entries."""
    official, playbook = {}, Playbook()
    for number, (op, target) in enumerate(plan):
        text = f"Lesson {number}."
        if op == "ADD":
            official[len(official) + 1] = text
        elif target in official:
            official[target] = text
        playbook.apply(Operation(Op(op), text, target), "maze", 1, "maze_1")
    assert {lesson.id: lesson.text for lesson in playbook.lessons} == official


def book(*texts, **keys):
    playbook = Playbook(**keys)
    for text in texts:
        playbook.apply(Operation(Op.add, text), "maze", 1, "maze_1")
    return playbook


def test_after_a_deletion_no_lesson_is_overwritten():
    playbook = book("One.", "Two.", "Three.")
    playbook.apply(Operation(Op.delete, id=1), "maze", 2, "maze_2")
    playbook.apply(Operation(Op.add, "Four."), "maze", 2, "maze_2")
    assert playbook.listed("maze") == ["[2] Two.", "[3] Three.", "[4] Four."]


def test_a_lesson_that_is_there_gains_a_group():
    playbook = book("Look  first.")
    playbook.apply(Operation(Op.add, "look first"), "maze", 2, "maze_7")
    (lesson,) = playbook.lessons
    assert (lesson.text, lesson.groups) == ("Look  first.", ["maze_1", "maze_7"])
    assert not playbook.apply(Operation(Op.update, "Else.", 1), "counter", 2, "counter_1"), "of another environment"


def test_the_least_used_leaves():
    playbook = book("One.", "Two.", "Three.")
    playbook.apply(Operation(Op.add, "One."), "maze", 2, "maze_2")
    playbook.observe("maze", successes=3, episodes=4)
    playbook.apply(Operation(Op.add, "Four."), "maze", 3, "maze_3")
    assert [lesson.text for lesson in playbook.cut(3, 1500)] == ["Four."], "0.5 before any episode"
    assert [lesson.text for lesson in playbook.cut(2, 1500)] == ["Two."], "the oldest of equals"
    assert playbook.cut(2, 5) and playbook.text("maze") == "", "not even one has room in 20 characters"


def test_what_a_model_reads():
    playbook = book("One.", "Two.", form=Form.rules)
    text = "Rules of this world, and how to go about it, learned in earlier attempts:\n[1] One.\n[2] Two."
    assert playbook.text("maze") == text and playbook.text("counter") == ""
    assert playbook.prompts({"maze": "Think.", "counter": "Count."}) == {
        "counter": "Count.",
        "maze": f"Think.\n\n{text}",
    }
    assert Playbook().prompts() == {} and Playbook().digest != playbook.digest


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 9}, "version 9"),
        ({"next_id": 1}, "next number is taken"),
        ({"form": "songs"}, "'songs' is not a valid Form"),
        ({"lessons": [{"id": 1}]}, "KeyError"),
        ({"lessons": None}, "TypeError"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path, change, says):
    file = tmp_path / "playbook.json"
    file.write_text(json.dumps({**book("One.").to_dict(), **change}))
    with pytest.raises(ValueError, match=f"playbook.json is no playbook .*{says}"):
        Playbook.read(file)


def test_a_giant_is_refused(tmp_path):
    book("x" * 100_000).write(tmp_path / "giant.json")
    with pytest.raises(ValueError, match=r"giant.json has 100,0\d\d characters for maze, more than 100,000; shorten"):
        Playbook.read(tmp_path / "giant.json")
    with pytest.raises(FileNotFoundError, match=r"none\.json does not exist; give a playbook"):
        Playbook.read(tmp_path / "none.json")
