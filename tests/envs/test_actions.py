"""What a reply means, and what a command looks like as a reply."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.envs.actions import Action, InvalidAction, format_react, parse_react


@pytest.mark.parametrize(
    ("reply", "command"),
    [
        ("Action: get 3 oak log", "get 3 oak log"),
        ("Thought:\nI need wood.\n\nAction:\nget 3 oak log", "get 3 oak log"),
        ("Action: get 3 oak log.", "get 3 oak log"),
        ("Action: `[go to red ball]`", "go to red ball"),
        ("Action: get  1,   stick\nand more talk", "get 1, stick"),
        ("Action: first line\nsecond line", "first line"),
        ("Action:", ""),
        ("Action:\n\n\nlook", "look"),
        ("I would rather not.", ""),
        ("action: look", ""),
        ("", ""),
    ],
)
def test_command_of_a_reply(reply, command):
    answer = parse_react(reply)
    assert isinstance(answer, Action)
    assert answer.command == command


def test_two_actions_are_refused():
    answer = parse_react("Action: look\nAction: go")
    assert isinstance(answer, InvalidAction)
    assert "found 2" in answer.observation


@pytest.mark.parametrize(
    ("reply", "thought"),
    [
        ("Thought: first this\nAction: look", "first this"),
        ("Thought:\nline one\nline two\n\nAction:\nlook", "line one\nline two"),
        ("Thought: no action follows", "no action follows"),
        ("Action: look", ""),
    ],
)
def test_thought_of_a_reply(reply, thought):
    answer = parse_react(reply)
    assert isinstance(answer, Action)
    assert answer.thought == thought


words = st.text(string.ascii_letters + string.digits + ",", min_size=1, max_size=8)
commands = st.lists(words, min_size=1, max_size=6).map(" ".join)
thoughts = st.one_of(st.just(""), st.text(string.ascii_letters + " .!?'\n", max_size=80).map(str.strip))


@given(commands, thoughts)
def test_a_formatted_command_reads_back(command, thought):
    assert parse_react(format_react(command, thought)) == Action(command, thought)


@given(st.text())
def test_any_reply_can_be_read(reply):
    answer = parse_react(reply)
    if isinstance(answer, Action):
        assert set(answer.command) <= set(string.ascii_letters + string.digits + ", ")
        assert answer.command == " ".join(answer.command.split())
    else:
        assert reply.count("Action:") > 1
