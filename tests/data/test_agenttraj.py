"""AgentTraj files keep their published form and refuse others clearly."""

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.data.agenttraj import Trajectory, decode, encode, read, write
from agentgym_rl.data.entries import FLAGS
from agentgym_rl.envs import make
from agentgym_rl.envs.actions import Action, ActionFormat
from agentgym_rl.envs.core import ACKNOWLEDGEMENT
from agentgym_rl.envs.formats import reader

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
    agentgym = [{"role": role, "content": "x"} for role in ("user", "assistant", "user", "assistant", "user")]
    assert Trajectory.of("x_1", agentgym, start=2).loss == (None, False, None, True)
    compact = [{"role": role, "content": "x"} for role in ("system", "user", "assistant", "user")]
    trajectory = Trajectory.of("x_1", compact, start=1)
    assert trajectory.loss == (None, None, True)
    assert encode(trajectory)["conversations"][0] == {"from": "system", "loss": None, "value": "x"}
    silent = [*compact[:2], {"role": "assistant", "content": " "}, compact[1], {"role": "assistant", "content": "x"}]
    assert Trajectory.of("x_1", silent, start=1).loss == (None, None, False, None, True), "nothing to learn from"


def changed(at=2, **replacements):
    """A published entry with fields of its third message, or another, replaced."""
    entry = json.loads(json.dumps(PUBLISHED))
    entry["conversations"][at].update(replacements)
    return entry


replied = partial(changed, 3)


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
        (changed(**{"from": "narrator"}), "message 3 is from 'narrator', expected one of human, user, tool"),
        (changed(**{"from": "gpt"}), "message 3 is from 'gpt', expected 'human'"),
        (changed(**{"from": "system"}), "message 3 is from 'system', expected 'human'"),
        (replied(loss="yes"), "message 4 from 'gpt' has loss 'yes', expected true or false"),
        (replied(loss=0.5), "message 4 from 'gpt' has loss 0.5, expected true or false"),
        (replied(weight=0), "message 4 from 'gpt' is trained on by one of loss, weight, train, training and not by"),
        (replied(value=" \n"), 'message 4 is an empty response to train on; write it, or give it "loss": false'),
        (replied(value=[{"type": "image_url"}]), "a part of message 4 is of type 'image_url'; only text can be read"),
        (replied(tool_calls=[{"name": "a"}] * 2), "the call of message 4: expected one call per reply, found 2"),
        (replied(tool_calls=[{"name": "a", "arguments": "{"}]), "the call of message 4: expected one JSON object"),
        (replied(reasoning=3), "'reasoning' of message 4 is a number, expected a string"),
        ({"item_id": "a_1", "prompt": "hi", "completion": []}, "'prompt' of the entry is a string, expected a list"),
        ({"item_id": "a_1", "conversations": PUBLISHED["conversations"][1:]}, "message 1 is from 'gpt'"),
    ],
)
def test_a_bad_entry_is_named_with_its_fault(tmp_path, entry, says):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([PUBLISHED, entry]))
    with pytest.raises(ValueError, match=r"a\.json, entry 2: ") as caught:
        read(path)
    assert says in str(caught.value)


def said(*texts, roles=("user", "assistant")):
    return [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]


GOAL = "Goal: craft stick."


@pytest.mark.parametrize(
    ("messages", "loss"),
    [
        (said(GOAL, "Action: look", "A room", "Action: go"), (None, True, None, True)),
        (said(GOAL, "move up", "A room", "Action: go"), (None, True, None, True)),
        ([{"role": "system", "content": "Rules."}, *said(GOAL, "Ok.", "A room", "go")], (None, None, True, None, True)),
        (said("Rules.", ACKNOWLEDGEMENT, GOAL, "Action: look"), (None, False, None, True)),
        (said("Rules.", "Ok.", GOAL, "Action: look"), (None, False, None, True)),
        (said("Say ok.", "Ok."), (None, True)),
        ([*said("Rules.", "Ok.", GOAL, "look")[:1], {"from": "gpt", "value": "Ok.", "loss": 1}, *said(GOAL, "look")],
         (None, True, None, True)),
    ],
)  # fmt: skip
def test_every_response_is_learned_but_an_acknowledgement_of_agentgyms(messages, loss):
    for key in ("conversations", "messages"):
        assert decode({"item_id": "maze_1", key: messages}).loss == loss


def with_flags(*flags, **more):
    """A response a message, each with its flag."""
    turns = [({"role": "user", "content": "go"}, {"role": "assistant", "content": "a"} | flag | more) for flag in flags]
    return {"item_id": "maze_1", "messages": [message for turn in turns for message in turn]}


def test_what_the_file_says_of_the_loss_is_done():
    flags = [{"loss": 0}, {"loss": 1.0}, {"weight": 0}, {"train": False}, {"training": True, "loss": True}, {}]
    trained = (False, True, False, False, True, True)
    assert decode(with_flags(*flags)).loss[1::2] == trained
    assert decode(with_flags(*flags, loss_of_others=None)).loss[1::2] == trained
    assert decode(changed(loss=True)) == decode(changed(loss=7)) == decode(PUBLISHED), "an observation has no loss"
    empty = decode(with_flags({"loss": False, "content": ""}, {}))
    assert empty.loss[1::2] == (False, True)


CALL = {"name": "move", "arguments": '{"direction": "up"}'}
WRITTEN = {"thought": "", "function_name": "move", "arguments": {"direction": "up"}}


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"content": None, "tool_calls": [{"id": "1", "type": "function", "function": CALL}]}, json.dumps(WRITTEN)),
        ({"tool_calls": [CALL]}, json.dumps(WRITTEN)),
        ({"content": "So.", "function_call": CALL}, json.dumps(WRITTEN | {"thought": "So."})),
        (
            {"content": "So.", "tool_calls": [WRITTEN | {"thought": "Up."}]},
            json.dumps(WRITTEN | {"thought": "So.\nUp."}),
        ),
        ({"content": "Action: look", "tool_calls": None, "reasoning": ""}, "Action: look"),
        ({"content": "Action: look", "reasoning_content": "Hm."}, "<think>\nHm.\n</think>\n\nAction: look"),
        ({"content": "", "tool_calls": [CALL], "thinking": "Hm."}, f"<think>\nHm.\n</think>\n\n{json.dumps(WRITTEN)}"),
        ({"content": [{"type": "text", "text": "Action: "}, {"type": "text", "text": "look"}]}, "Action: look"),
        ({"content": '<tool_call>{"name": "move"}</tool_call>'}, '<tool_call>{"name": "move"}</tool_call>'),
    ],
)
def test_all_that_the_model_wrote_is_kept(response, text):
    messages = [{"role": "developer", "content": "Rules."}, {"role": "user", "content": "Go."}]
    messages += [{"role": "assistant", **response}, {"role": "tool", "content": "ok"}]
    trajectory = decode({"item_id": "maze_1", "messages": messages})
    assert [message["role"] for message in trajectory.messages] == ["system", "user", "assistant", "user"]
    assert trajectory.messages[2]["content"] == text and trajectory.loss == (None, None, True, None)
    assert decode(encode(trajectory)) == trajectory


def test_a_call_of_a_demonstration_is_an_action_of_the_environment():
    spec = make("maze").spec
    messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "thinking": "Hm.", "tool_calls": [CALL]}]
    response = decode({"item_id": "maze_1", "messages": messages}).messages[1]["content"]
    assert reader(spec, ActionFormat.FUNCTION_CALLING)(response) == Action("move up")


def test_the_task_may_be_named_in_extra_info():
    for name in ("item_id", "id"):
        entry = {"messages": said("Go.", "Action: look"), "item_id": None, "extra_info": {name: "maze_7", "index": 0}}
        assert decode(entry).item_id == "maze_7"
    with pytest.raises(ValueError, match="'item_id' of the entry is null"):
        decode(entry | {"extra_info": {"index": 0}})


def test_a_prompt_of_trls_is_not_trained_on():
    context, completion = said("a", "b", "c"), said("d", roles=("assistant",))
    assert decode({"item_id": "maze_1", "prompt": context, "completion": completion}).loss == (None, False, None, True)
    flagged = [context[0], context[1] | {"loss": True}, context[2]]
    assert decode({"item_id": "maze_1", "prompt": flagged, "completion": completion}).loss == (None, True, None, True)


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
        text = draw(st.text())
        turns += [("user", None, draw(st.text())), ("assistant", bool(text.strip()) and draw(st.booleans()), text)]
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


SPOKEN = {"system": ("system", "developer"), "user": ("human", "user", "tool"), "assistant": ("gpt", "assistant")}


@given(trajectories(), st.data())
def test_every_form_of_a_conversation_is_the_same_trajectory(trajectory, data):
    """Whatever the names of roles, texts and flags, and whether a message has all columns."""
    messages = []
    for message, loss in zip(trajectory.messages, trajectory.loss, strict=True):
        sender = data.draw(st.sampled_from(SPOKEN[message["role"]]))
        role, text = data.draw(st.sampled_from([("from", "value"), ("role", "content")]))
        flag = data.draw(st.sampled_from([loss, None if loss is None else int(loss)]))
        columns = dict.fromkeys(("from", "value", "role", "content", "tool_calls", "weight"))
        spoken = {role: sender, text: message["content"], data.draw(st.sampled_from(FLAGS)): flag}
        messages.append({**(columns if data.draw(st.booleans()) else {}), **spoken})
    task = data.draw(
        st.sampled_from([{"item_id": trajectory.item_id}, {"extra_info": {"item_id": trajectory.item_id}}])
    )
    assert decode({**task, data.draw(st.sampled_from(["conversations", "messages"])): messages}) == trajectory
