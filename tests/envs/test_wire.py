"""Every environment's dialect: AgentGym's shapes, and what is written is read back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.envs.actions import Action, parse_line
from agentgym_rl.envs.core import EnvSpec, EnvTimeout, Observation, ProtocolError, Step
from agentgym_rl.envs.protocol.wire import DIALECTS, MAX_SESSION, Dialect, State, dialect, error_in

BARE, TEXT, PAIR = "bare", "text", "pair"
TOOL = (BARE, {"id": 0}, {"env_idx": 9, "id": 4}, TEXT, {"observation", "reward", "done"})
SHAPES = {
    "textcraft": (
        {"id", "observation", "done", "reward"},
        {},
        {"id": 9, "data_idx": 4},
        {"id", "observation", "done", "reward"},
        {"observation", "reward", "done"},
    ),
    "babyai": (
        {"id"},
        None,
        {"id": 9, "data_idx": 4},
        {"observation", "reward", "score", "deleted", "done"},
        {"observation", "reward", "score", "done"},
    ),
    "sciworld": (
        {"id"},
        None,
        {"id": 9, "data_idx": 4},
        {"task_name", "var_num", "task_description", "observation", "reward", "score", "deleted", "done"},
        {"observation", "reward", "score", "done"},
    ),
    "alfworld": (
        {"id"},
        None,
        {"id": 9, "game": 4, "world_type": "Text"},
        {"id", "observation", "available_actions", "task_type"},
        {"observation", "reward", "available_actions", "done"},
    ),
    "maze": ({"id"}, None, {"id": 9, "game": 4}, {"observation"}, {"observation", "reward", "done"}),
    "wordle": ({"id"}, None, {"id": 9, "seed": 4}, {"id", "observation"}, {"observation", "reward", "done"}),
    "webshop": (BARE, None, {"env_idx": 9, "session_id": 4}, PAIR, {"state", "reward", "done", "info"}),
    "sqlgym": (BARE, None, {"env_idx": 9, "item_id": 4}, PAIR, {"state", "reward", "done", "info"}),
    "searchqa": (*TOOL[:4], {"observation", "reward", "done", "info"}),
    **dict.fromkeys(["weather", "movie", "academia", "todo", "sheet"], TOOL),
    "webarena": (
        {"env_idx"},
        None,
        {"env_idx": 9, "seed": 0, "idx": 4},
        {"observation", "sites", "object"},
        {"observation", "reward", "terminated", "truncated", "info"},
    ),
}
"""AgentGym's reply to /create, body of it, body of /reset, reply to /reset, reply to /step."""

LIKE_A_STRANGER = Dialect(env="a_world_of_yours")
ALL = [*DIALECTS.values(), LIKE_A_STRANGER]
every_world = pytest.mark.parametrize("words", ALL, ids=lambda words: words.env)


def state(text="You see.\nA door.", actions=None, total=0.0, reward=0.0, terminated=False, **more):
    return State(4, "easy", Step(Observation(text, actions), reward, terminated, **more), total)


def seen(body):
    """A body after its way through JSON."""
    return json.loads(json.dumps(body))


def test_all_fifteen_worlds_are_there():
    assert set(DIALECTS) == set(SHAPES) and len(DIALECTS) == 15
    assert all(name == words.env for name, words in DIALECTS.items())
    assert dialect("maze") is DIALECTS["maze"] and dialect("a_world_of_yours") == LIKE_A_STRANGER


@pytest.mark.parametrize("name", SHAPES)
def test_replies_hold_what_agentgyms_clients_take(name):
    words = DIALECTS[name]
    create, create_body, reset_body, reset, step = SHAPES[name]
    created = words.write_create(9, state() if words.create_starts else None)
    assert created == 9 if create is BARE else create <= set(created)
    assert words.create_body == create_body
    assert words.reset_body(9, 4) == reset_body
    reply = words.write_reset(9, state())
    match reset:
        case "text":
            assert reply == "You see.\nA door."
        case "pair":
            assert reply == ["You see.\nA door.", None]
        case keys:
            assert keys <= set(reply)
    assert step <= set(words.write_step(state()))
    assert set(words.step_body(9, "go")) == {words.key, "action"}


def test_a_strange_world_talks_plainly():
    assert seen(LIKE_A_STRANGER.write_reset(9, state("Hi."))) == {
        "id": 9,
        "observation": "Hi.",
        "done": False,
        "reward": 0.0,
    }
    reply = LIKE_A_STRANGER.write_step(state("Hi.", reward=1.0, total=1.0, terminated=True, info={"invalid": False}))
    assert reply == {
        "observation": "Hi.",
        "reward": 1.0,
        "earned": 1.0,
        "done": True,
        "truncated": False,
        "info": {"invalid": False},
    }


texts = st.text(max_size=30)
lists = st.none() | st.lists(st.text("abc ", min_size=1, max_size=5), max_size=3).map(tuple)


@every_world
@given(number=st.integers(0, MAX_SESSION - 1), text=texts, actions=lists)
def test_a_first_observation_comes_back(words, number, text, actions):
    there = state(text, actions)
    assert words.new_session(seen(words.write_create(number, there if words.create_starts else None))) == number
    assert words.read_reset(seen(words.write_reset(number, there))).text == text


def test_agentgyms_clients_put_first_observations_together():
    listed = state("A room.\nAVAILABLE ACTIONS: look,go to bed 1", ("look", "go to bed 1"))
    reply = DIALECTS["alfworld"].write_reset(9, listed)
    assert (reply["observation"], reply["available_actions"]) == ("A room.", ["look", "go to bed 1"])
    reply = DIALECTS["sciworld"].write_reset(9, state("Boil water.\nYou are here."))
    assert (reply["task_description"], reply["observation"]) == ("Boil water.", "You are here.")


def test_first_observations_of_agentgyms_servers_are_put_together():
    words = DIALECTS["alfworld"]
    reply = {"id": 0, "observation": "A room.", "available_actions": ["look", "wait"], "task_type": "pick/1"}
    assert words.read_reset(reply) == Observation("A room.\nAVAILABLE ACTIONS: look,wait", ("look", "wait"))
    words = DIALECTS["sciworld"]
    reply = {"task_description": "Boil water.", "observation": "You are here.", "score": 0, "done": False}
    assert words.read_reset(reply) == Observation("Boil water.\nYou are here.")


@every_world
@given(
    text=texts,
    actions=lists,
    reward=st.floats(0, 1),
    share=st.floats(0, 1),
    ended=st.sampled_from([(False, False), (True, False), (False, True)]),
)
def test_a_step_comes_back(words, text, actions, reward, share, ended):
    before = share * (1 - reward)
    if words.reward_ends and reward > 0:
        ended = (True, False)
    step = Step(Observation(text, actions), reward, *ended, info={"invalid": True, "raw_reward": 0.5})
    read = words.read_step(seen(words.write_step(state(total=before).after(step))), before)
    assert (read.observation.text, read.reward) == (text, reward)
    assert (read.terminated, read.truncated) == ended
    assert read.info == step.info
    if words.lists_actions:
        assert read.observation.actions == (actions or ())


@every_world
@given(rewards=st.lists(st.floats(-200, 200), max_size=6))
def test_rewards_of_any_server_stay_within_an_episodes_share(words, rewards):
    total = 0.0
    for reward in rewards:
        body = {words.text: "", "reward": reward, "score": reward, words.done: False}
        step = words.read_step(body, total)
        assert 0 <= step.reward <= 1 and step.info["raw_reward"] == reward
        total += step.reward
    assert 0 <= total <= 1 + 1e-9


def test_a_running_score_is_read_as_what_each_step_added():
    words = DIALECTS["sciworld"]
    scores = [0, 17, 17, 50, -100]
    total, rewards = 0.0, []
    for score in scores:
        step = words.read_step({"observation": "", "reward": 0, "score": score, "done": score < 0}, total)
        total += step.reward
        rewards.append(round(step.reward, 9))
    assert rewards == [0, 0.17, 0, 0.33, 0] and step.terminated


def test_progress_is_read_as_what_each_step_added():
    words = DIALECTS["academia"]
    first = words.read_step({"observation": "", "reward": 0.5, "done": False}, 0.0)
    second = words.read_step({"observation": "", "reward": 0.75, "done": True}, first.reward)
    assert (first.reward, second.reward, second.terminated) == (0.5, 0.25, True)


def test_progress_is_what_a_tool_worlds_client_is_told():
    reply = DIALECTS["todo"].write_step(state(reward=0.0, info={"raw_reward": 0.4}))
    assert (reply["reward"], reply["earned"]) == (0.4, 0.0)


def test_babyai_takes_no_second_reward_for_an_end_that_was_taken_back():
    body = {"observation": "", "reward": 0.325, "score": 0.325, "done": False}
    assert DIALECTS["babyai"].read_step(body, 0.0).terminated


def test_mazes_failure_is_no_negative_reward():
    step = DIALECTS["maze"].read_step({"observation": "Failure", "reward": -1, "done": True}, 0.0)
    assert (step.reward, step.info["raw_reward"], step.terminated) == (0.0, -1.0, True)
    assert DIALECTS["maze"].write_step(state(info={"raw_reward": -1.0}))["reward"] == -1.0


def test_scores_have_agentgyms_scale():
    reply = DIALECTS["sciworld"].write_step(state(reward=0.25, total=0.5))
    assert (reply["reward"], reply["score"]) == (25.0, 50.0)
    assert DIALECTS["sciworld"].write_step(state(info={"raw_reward": -100.0}))["score"] == -100.0
    reply = DIALECTS["babyai"].write_step(state(reward=0.25, total=0.5, info={"raw_reward": 0.25}))
    assert reply["score"] == 0.5


def test_an_action_is_the_command_or_the_reply():
    spec = EnvSpec(
        name="x",
        instructions={"agentgym": "", "compact": ""},
        splits={"train": [0], "test": [1]},
        max_turns=1,
        success_above=0.5,
        read=parse_line,
    )
    assert DIALECTS["textcraft"].write_action(spec, "inventory") == "inventory"
    assert DIALECTS["textcraft"].read_action(spec, "Action: inventory") == Action("Action: inventory")
    assert DIALECTS["weather"].write_action(spec, "finish") == "Action: finish"
    assert DIALECTS["weather"].read_action(spec, "Thought: I may.\nAction: finish") == Action("finish", "I may.")


@every_world
@pytest.mark.parametrize("body", [None, 3, "x", [], [3], {}, {"id": "x", "env_idx": None, "reward": 0}, True])
def test_senseless_replies_are_errors(words, body):
    with pytest.raises(ProtocolError):
        words.read_step(body, 0.0)
    if not (words.create_bare and body == 3):
        with pytest.raises(ProtocolError):
            words.new_session(body)
    if body != "x" or words.reset_keys:
        with pytest.raises(ProtocolError):
            words.read_reset(body)


def test_observations_are_read():
    assert DIALECTS["webshop"].read_observation("A page.") == Observation("A page.")
    assert DIALECTS["babyai"].read_observation({"observation": "A room.", "done": False}) == Observation("A room.")
    with pytest.raises(ProtocolError, match="no text"):
        DIALECTS["webshop"].read_observation({"observation": "A page."})


def test_an_error_under_status_200():
    assert error_in({"error": "no such id"}) == "no such id"
    assert error_in({"observation": ""}) is None and error_in(True) is None


def test_webarena_says_timeout_in_the_observation():
    with pytest.raises(EnvTimeout, match="webarena"):
        DIALECTS["webarena"].read_reset({"observation": "TimeoutError", "sites": "Error", "object": "Error"})


HUGE = 10**400


@pytest.mark.parametrize("env", ["textcraft", "babyai", "sciworld", "weather", "sqlgym"])
@pytest.mark.parametrize("number", [HUGE, -HUGE, 1e308, float("nan"), float("inf"), "1", None, [1]])
def test_no_number_of_a_server_breaks_a_step(env, number):
    words = dialect(env)
    reply = words.write_step(state().after(Step(Observation("seen"), 0.5, terminated=False)))
    for key in ({"reward", "score", "earned"} & reply.keys()) - {"reward" if words.score else "score"}:
        try:
            step = words.read_step({**reply, key: number}, 0.25)
        except ProtocolError:
            assert key != "earned"
        else:
            assert 0 <= step.reward <= 1
