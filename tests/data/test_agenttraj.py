"""AgentTraj files keep their published form and refuse others clearly."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.data.agenttraj import Trajectory, decode, encode, read, write
from agentgym_rl.envs.core import ACKNOWLEDGEMENT

PUBLISHED = {
    "item_id": "textcraft_12",
    "conversations": [
        {"from": "human", "loss": None, "value": "You are given recipes."},
        {"from": "gpt", "loss": False, "value": ACKNOWLEDGEMENT},
        {"from": "human", "loss": None, "value": "Goal: craft stick."},
        {"from": "gpt", "loss": True, "value": "Thought:\nWood.\n\nAction:\nget 1 oak log"},
        {"from": "human", "loss": None, "value": "Got 1 oak log"},
        {"from": "gpt", "loss": True, "value": "Action: craft"},
    ],
}


def test_the_published_form_is_read_and_written_unchanged(tmp_path):
    path = tmp_path / "textcraft_train.json"
    path.write_text(json.dumps([PUBLISHED]))
    trajectories = read(path)
    assert trajectories[0].messages[0] == {"role": "user", "content": "You are given recipes."}
    assert trajectories[0].loss == (None, False, None, True, None, True)
    write(path, trajectories)
    assert json.loads(path.read_text()) == [PUBLISHED]


def test_flags_follow_the_conversation_start():
    agentgym = [{"role": role, "content": ""} for role in ("user", "assistant", "user", "assistant", "user")]
    assert Trajectory.of("x_1", agentgym, start=2).loss == (None, False, None, True)
    compact = [{"role": role, "content": ""} for role in ("system", "user", "assistant", "user")]
    trajectory = Trajectory.of("x_1", compact, start=1)
    assert trajectory.loss == (None, None, True)
    assert encode(trajectory)["conversations"][0] == {"from": "system", "loss": None, "value": ""}


def changed(**replacements):
    """A published entry with fields of its message 3 replaced; None stands for a field left out."""
    entry = json.loads(json.dumps(PUBLISHED))
    entry["conversations"][2].update(replacements)
    return entry


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (7, "the entry is a number, expected an object"),
        ({"conversations": []}, "no 'item_id'; its keys: conversations"),
        ({"item_id": 3, "conversations": []}, "'item_id' of the entry is a number, expected a string"),
        ({"item_id": "", "conversations": PUBLISHED["conversations"]}, "item_id is empty"),
        ({"item_id": "a_1", "conversations": []}, "no messages"),
        ({"item_id": "a_1", "conversations": "hi"}, "is a string, expected a list"),
        ({"item_id": "a_1", "conversations": ["hi"]}, "message 1 is a string, expected an object"),
        (changed(value=None), "'value' of message 3 is null, expected a string"),
        (changed(**{"from": "user"}), "message 3 is from 'user', expected one of human, gpt, system"),
        (changed(**{"from": "gpt"}), "message 3 is from 'gpt', expected 'human'"),
        (changed(**{"from": "system"}), "message 3 is from 'system', expected 'human'"),
        (changed(loss=True), "message 3 from 'human' has loss true, not null"),
        ({"item_id": "a_1", "conversations": PUBLISHED["conversations"][1:]}, "message 1 is from 'gpt'"),
    ],
)
def test_a_bad_entry_is_named_with_its_fault(tmp_path, entry, says):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([PUBLISHED, entry]))
    with pytest.raises(ValueError, match=r"a\.json, entry 2: ") as caught:
        read(path)
    assert says in str(caught.value)


def test_a_reply_needs_its_flag():
    entry = json.loads(json.dumps(PUBLISHED))
    del entry["conversations"][3]["loss"]
    with pytest.raises(ValueError, match="message 4 from 'gpt' has loss null, not true or false"):
        decode(entry)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('[{"item_id":\n')
    with pytest.raises(ValueError, match=r"a\.json: not JSON \(line 2"):
        read(path)
    path.write_text('{"a": 1}')
    with pytest.raises(ValueError, match="expected a list, found dict"):
        read(path)


def test_nothing_is_written_when_a_trajectory_is_bad(tmp_path):
    with pytest.raises(ValueError, match="2 messages but 1 loss flags"):
        write(
            tmp_path / "a.json",
            (Trajectory("a_1", ({"role": "user", "content": ""},) * size, (None,)) for size in (1, 2)),
        )
    assert list(tmp_path.iterdir()) == []


@st.composite
def trajectories(draw):
    system = [("system", None, draw(st.text()))] if draw(st.booleans()) else []
    turns = []
    for _ in range(draw(st.integers(1, 4))):
        turns += [("user", None, draw(st.text())), ("assistant", draw(st.booleans()), draw(st.text()))]
    messages = system + turns[: draw(st.integers(1, len(turns)))]
    return Trajectory(
        draw(st.text(min_size=1)),
        tuple({"role": role, "content": content} for role, _, content in messages),
        tuple(loss for _, loss, _ in messages),
    )


@given(st.lists(trajectories(), max_size=4))
def test_what_is_written_reads_back(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("trajectories") / "a.json"
    write(path, written)
    assert read(path) == written
