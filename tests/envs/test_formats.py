"""Replies in every action format."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.actions import TAIL, Action, ActionFormat, InvalidAction, parse_line, parse_rest, parse_tags
from agentgym_rl.envs.bounds import encodable
from agentgym_rl.envs.core import EnvSpec
from agentgym_rl.envs.formats import ECHO, MAX_RESPONSE_CHARACTERS, guarded, opening, reader, write
from agentgym_rl.envs.tools import BadCall, Tool, to_call, tool_of, value_of

PLACE = {"type": "string", "description": "where"}
TOOLS = (
    Tool("look", "Look.", {"place": PLACE}, ("place",), ("look", "look at {place}")),
    Tool("put", "Put.", {"thing": {"type": "string"}, "place": PLACE}, commands=("put {thing} in {place}",)),
    Tool("wait", "Wait.", {"turns": {"type": "integer"}}, commands=("wait {turns}",)),
    Tool("search", "Search.", {"query": {"type": "string"}, "n": {"type": "integer"}}, ("n",)),
)
SPEC = EnvSpec(
    name="household",
    instructions={"agentgym": "Do it.", "compact": "Do."},
    splits={"train": range(2), "test": range(2, 4)},
    max_turns=3,
    success_above=0.5,
    tools=TOOLS,
)
CALLS, CODE = ActionFormat.FUNCTION_CALLING, ActionFormat.CODE_AS_ACTION
COMMANDS = [
    "look",
    "look at a red box",
    "put cup in sink",
    "wait 3",
    'search with Action Input: {"query": "x", "n": 2}',
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("action_format", [CALLS, CODE])
def test_a_command_survives_its_way_through_a_call(command, action_format):
    reply = write(SPEC, action_format, command, "I think\nso")
    assert reader(SPEC, action_format)(reply) == Action(command, "I think\nso")


@pytest.mark.parametrize("action_format", [ActionFormat.REACT, CALLS, CODE])  # tags: verl-agent takes the first ones
def test_what_is_thought_is_no_action(action_format):
    drafted, final = (write(SPEC, action_format, command, "so") for command in ("wait 1", "wait 3"))
    for thinking in (f"<think>\n{drafted}\n</think>\n\n", f"{drafted}\n</think>\n\n"):  # a template may open it itself
        assert reader(SPEC, action_format)(thinking + final) == Action("wait 3", "so")
    only_thought = reader(SPEC, action_format)(f"{final}\n</think>\n\n")
    assert isinstance(only_thought, InvalidAction) or only_thought.command == ""


def test_calls_are_agentgyms_json():
    reply = json.loads(write(SPEC, CALLS, "put cup in sink", "tidy"))
    assert reply == {"thought": "tidy", "function_name": "put", "arguments": {"thing": "cup", "place": "sink"}}
    fenced = f"Sure:\n```json\n{json.dumps(reply)}\n```"
    assert reader(SPEC, CALLS)(fenced) == Action("put cup in sink", "tidy")


WAIT = {"name": "wait", "arguments": {"turns": 3}}
LLAMA = {"name": "wait", "parameters": {"turns": 3}}
AS_TEXT = {"name": "wait", "arguments": '{"turns": 3}'}


@pytest.mark.parametrize(
    "call",
    [
        json.dumps({"function_name": "wait", "arguments": '{"turns": 3}'}),  # as AgentGym's own adapters write it
        json.dumps(WAIT),
        json.dumps(AS_TEXT),
        json.dumps({"type": "function", "function": AS_TEXT}),
        json.dumps({"tool_calls": [{"id": "1", "type": "function", "function": AS_TEXT}]}),
        json.dumps(LLAMA),
        json.dumps({"type": "function", **LLAMA}),
        json.dumps({"function_name": None, "arguments": None, **LLAMA}),  # columns of a table that others fill
        f"<|python_tag|>{json.dumps(LLAMA)}",
        '<function=wait>{"turns": 3}</function>',
        f"```json\n{json.dumps(LLAMA)}\n```",
        f"[TOOL_CALLS] [{json.dumps(WAIT)}]",
        f"<tool_call>\n{json.dumps(WAIT)}\n</tool_call>",
        f"<tool_call>\n{json.dumps(AS_TEXT)}",
        "<tool_call>\n<function=wait>\n<parameter=turns>\n3\n</parameter>\n</function>\n</tool_call>",
        "<tool_call><function=wait><parameter=turns>3",
    ],
)
def test_calls_of_other_models_are_read_with_the_text_before_as_thought(call):
    assert reader(SPEC, CALLS)(call) == Action("wait 3", "")
    assert reader(SPEC, CALLS)(f"<think>\nno\n</think>\n\nI wait.\n{call}") == Action("wait 3", "I wait.")


def test_tags_in_an_argument_are_text():
    for text in ("<tool_call>{}</tool_call><tool_call>", "<function=look></function>"):
        for form in ("function_name", "name"):
            call = {form: "look", "arguments": {"place": text}}
            assert reader(SPEC, CALLS)(json.dumps(call)) == Action(f"look at {text}", "")
    quoted = "<tool_call><function=look><parameter=place>{a: 3}</parameter></function></tool_call>"
    assert reader(SPEC, CALLS)(quoted) == Action("look at {a: 3}", "")


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    st.integers(),
    st.booleans(),
    st.sampled_from(["name", "function_name"]),
    st.sampled_from(["arguments", "parameters"]),
)
def test_every_argument_arrives_whatever_the_form(query, n, as_text, name, key):
    arguments = {"query": query, "n": n}
    call = json.dumps({name: "search", key: json.dumps(arguments) if as_text else arguments})
    command = TOOLS[3].command(arguments)
    tagged = [] if "</tool_call>" in query else [f"<tool_call>\n{call}\n</tool_call>"]
    for response in (call, *tagged):
        assert reader(SPEC, CALLS)(response) == Action(command, "")


def test_arguments_in_tags_have_the_types_of_the_function():
    tool = Tool("set", "Set.", {"on": {"type": "boolean"}, "to": {"type": "array"}, "name": {"type": "string"}})
    texts = {"on": "True", "to": '["A", 1]', "name": "3", "other": "4"}
    assert tool.typed(texts) == {"on": True, "to": ["A", 1], "name": "3", "other": "4"}
    assert tool.typed({"on": "maybe", "to": "["}) == {"on": "maybe", "to": "["}


OPTIONAL = {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
CHOICE = {"$ref": "#/$defs/Choice"}
SERVER = tool_of(
    "f",
    "Of an MCP server.",
    {
        "type": "object",
        "properties": {
            "n": OPTIONAL, "m": {"type": ["integer", "null"]}, "s": {"type": ["string", "integer"]},
            "t": {"oneOf": [{"type": "string"}, {"type": "null"}]}, "list": {"anyOf": [{"type": "array"}, OPTIONAL]},
            "rank": {"enum": [1, 2]}, "choice": {"anyOf": [CHOICE, {"type": "null"}]}, "few": {"type": "integer",
            "maximum": 5}, "any": {},
        },
        "$defs": {"Choice": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    },
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("n", "3", 3), ("n", "null", None), ("n", "None", "None"), ("n", "x", "x"), ("m", "3", 3), ("m", "Null", None),
        ("s", "3", "3"), ("t", "null", "null"), ("t", "3", "3"), ("list", "[3]", [3]), ("list", "3", 3),
        ("rank", "2", 2), ("choice", '{"x": 3}', {"x": 3}), ("few", "7", 7), ("few", "NaN", "NaN"), ("any", "3", "3"),
    ],
)  # fmt: skip
def test_an_argument_in_tags_is_the_first_value_that_its_schema_accepts(name, text, value):
    assert SERVER.typed({name: text}) == {name: value}


def test_a_tool_that_was_called_can_go_to_another_process():
    SERVER.command(SERVER.typed({"n": "3"}))
    assert pickle.loads(pickle.dumps(SERVER)) == SERVER


def test_a_text_has_one_of_several_types():
    assert value_of("3", ["integer", "null"]) == value_of("3", "integer") == 3
    assert value_of("3", ["string", "integer"]) == value_of("3", {"odd": 1}) == value_of("3", ["odd"]) == "3"


GAME = EnvSpec(
    name="game",
    instructions={},
    splits={},
    max_turns=1,
    success_above=0,
    tools=(
        Tool("click", "Click.", {"id": {"type": "integer"}}, commands=("click [{id}]",)),
        Tool("again", "Again.", {"n": OPTIONAL}, commands=("again{n}",)),
        Tool("point", "Point.", {"x": {"type": "number"}}, commands=("point [{x}]",)),
        Tool("rows", "Rows.", {"of": {"type": "array", "items": {"type": "integer"}}, "n": {"type": "number"}}),
    ),
)


@pytest.mark.parametrize(
    ("code", "command"),
    [
        ("click(12.0)", "click [12]"),
        ("again(2.0)", "again2"),
        ("point(12.0)", "point [12.0]"),
        ("point(1e-07)", "point [0.0000001]"),
        ("point(-2.5e20)", "point [-250000000000000000000]"),
        ("rows([1.0, 2], 3.0)", 'rows with Action Input: {"of": [1, 2], "n": 3.0}'),
    ],
)
def test_a_number_is_written_as_the_environment_reads_it(code, command):
    assert reader(GAME, CODE)(code) == Action(command, "")
    name, arguments = to_call(GAME.tools, command)
    call = json.dumps({"function_name": name, "arguments": arguments})
    assert reader(GAME, CALLS)(call) == Action(command, "")


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (f"<tool_call>{json.dumps(WAIT)}</tool_call>" * 2, "one call per reply, found 2"),
        ("<function=look></function>" * 3, "one call per reply, found 3"),
        (json.dumps({"tool_calls": [WAIT, WAIT]}), "one call per reply, found 2"),
        (json.dumps({"tool_calls": []}), "one call per reply, found 0"),
        ("<tool_call>look</tool_call>", "JSON object"),
        ('{"name": "wait", "arguments": "[3]"}', "JSON object"),
        ('{"name": "wait", "arguments": 3}', "JSON object"),
        ('{"name": "look", "arguments": []}', "JSON object"),
        ("<function=wait><parameter=turns>three</parameter></function>", "'three' is not of type"),
        ("no call at all", "JSON object"),
        ('{"function_name": "put", "arguments": "cup"}', "JSON object"),
        ('{"function_name": "fly", "arguments": {}}', "no function 'fly'; there are look, put"),
        ('{"function_name": "put", "arguments": {"thing": "cup"}}', "'place' is a required property"),
        ('{"function_name": "wait", "arguments": {"turns": "three"}}', "argument 'turns': 'three' is not of type"),
        ('{"function_name": "look", "arguments": {"at": "x"}}', "at"),
        ('{"function_name"', "JSON object"),
    ],
)
def test_a_bad_call_is_told_to_the_agent(reply, message):
    answer = reader(SPEC, CALLS)(reply)
    assert isinstance(answer, InvalidAction) and message in answer.observation


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("look(); look()", "exactly one call"),
        ("x = look()", "exactly one call"),
        ("__import__('os').system('true')", "by its name"),
        ("look(place=open('/etc/passwd').read())", "must be a literal"),
        ("look(*['a'])", "must be a literal"),
        ("look(**{'place': 'a'})", "given once"),
        ("look('a', place='b')", "given once"),
        ("look('a', 'b')", "takes 1 arguments, got 2"),
        ("exec('1')", "no function 'exec'"),
        ("look(", "cannot be parsed"),
        ("```python\nlook()\n```\n```python\nlook()\n```", "one block of code"),
    ],
)
def test_code_is_never_evaluated(code, message):
    answer = reader(SPEC, CODE)(code)
    assert isinstance(answer, InvalidAction) and message in answer.observation


def test_code_takes_arguments_by_position_and_comments_as_thought():
    reply = "```python\n# the sink is\n# near\nput('cup', place='sink')\n```"
    assert reader(SPEC, CODE)(reply) == Action("put cup in sink", "the sink is\nnear")
    assert reader(SPEC, CODE)("look()") == Action("look", "")


@given(st.text(max_size=200))
def test_no_text_breaks_a_reader(text):
    for action_format in ActionFormat:
        assert isinstance(reader(SPEC, action_format)(text), Action | InvalidAction)


@given(thing=st.from_regex(r"[a-z]{1,8}", fullmatch=True), place=st.from_regex(r"[a-z]{1,8}( [0-9])?", fullmatch=True))
def test_every_call_has_a_command_and_comes_back(thing, place):
    command = TOOLS[1].command({"thing": thing, "place": place})
    assert to_call(TOOLS, command) == ("put", {"thing": thing, "place": place})


def test_the_instruction_shows_the_functions():
    for action_format, shown in ((CALLS, '"name": "put"'), (CODE, "def put(thing, place):")):
        for style in ("agentgym", "compact"):
            first, *_ = opening(SPEC, style, action_format)
            assert first["content"].startswith(SPEC.instructions[style]) and shown in first["content"]
    assert opening(SPEC, "compact", ActionFormat.REACT) == SPEC.conversation_start("compact")


def test_a_world_without_tools_says_so():
    bare = EnvSpec(name="bare", instructions={}, splits={}, max_turns=1, success_above=0)
    assert bare.action_formats == (ActionFormat.REACT, ActionFormat.TAGS)
    with pytest.raises(ValueError, match=r"bare.*describes no tools"):
        reader(bare, CALLS)
    with pytest.raises(BadCall, match="fly"):
        write(SPEC, CODE, "fly away")
    with pytest.raises(ValueError, match=r"names no parameter \['thing'\]"):
        Tool("put", "Put.", commands=("put {thing}",))


def test_lines_and_rests_keep_what_words_would_lose():
    assert parse_line("Thought: a\nAction: guess [3]; ok?\nmore") == Action("guess [3]; ok?", "a")
    assert isinstance(parse_line("Action: a\nAction: b"), InvalidAction)
    assert parse_rest("Thought: a\n\nAction: put Action: {\n 1}\n") == Action("{\n 1}", "a")
    assert parse_rest("nothing") == Action("", "")


@pytest.mark.parametrize(
    ("item_id", "reply", "command"),
    [
        ("textcraft_12", '{"function_name": "get", "arguments": {"items": "1 oak log"}}', "get 1 oak log"),
        ("babyai_3", '{"function_name": "pickup", "arguments": {}}', "pickup"),
        ("maze_3", '{"function_name": "move", "arguments": {"direction": "left"}}', "move left"),
    ],
)
def test_worlds_take_calls(item_id, reply, command):
    spec = make(Task.parse(item_id).env).spec
    assert reader(spec, CALLS)(reply) == Action(command, "")


HOSTILE = [
    "<function=" * 12_000,
    "<function=a>" * 10_000,
    "<tool_call>" * 10_000,
    "<function=search><parameter=" + "<parameter=a>" * 9_000,
    "{" * MAX_RESPONSE_CHARACTERS,
    " " * (MAX_RESPONSE_CHARACTERS - 1) + "{",
    '{"function_name": "wait", "arguments": {"turns": ' + "9" * 5000 + "}}",
    '{"function_name": ' + "9" * 5000 + "}",
    '{"function_name": "wait", "arguments": {"turns": ' + "[" * 900 + "]" * 900 + "}}",
    '{"function_name": "wait", "arguments": {"turns": Infinity}}',
    '{"function_name": "fly' + "y" * 5000 + '", "arguments": {}}',
    '{"function_name": "search", "arguments": {"query": "x", "' + "k" * 5000 + '": 1}}',
    "wait(turns=0x" + "f" * 3600 + ")",
    "wait(turns=2j)",
    "search('x', 2j)",
    "search(b'x')",
    "search({1, 2})",
    "search(...)",
    "search('x', n=1e999)",
    "wait(" + "-" * 50_000 + "1)",
    "(" * 5000 + ")" * 5000,
    "look()\\\r\n",
    "x" * (MAX_RESPONSE_CHARACTERS + 1),
    "Action: " * 20_000,
    "\x00\ud83d",
]


@pytest.mark.parametrize("action_format", list(ActionFormat))
@pytest.mark.parametrize("reply", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_reply_is_at_worst_an_invalid_action(reply, action_format):
    action = reader(SPEC, action_format)(reply)
    if isinstance(action, InvalidAction):
        assert len(action.observation) <= ECHO and action.fault is None
    elif action_format is ActionFormat.TAGS:
        assert len(action.command) <= TAIL and action.well_formed is False
    elif action_format is not ActionFormat.REACT:
        assert action == Action("look", "")


@pytest.mark.parametrize("action_format", list(ActionFormat))
def test_half_a_surrogate_pair_is_replaced_and_two_halves_are_joined(action_format):
    escaped = {CALLS: '{"function_name": "look", "arguments": {"place": "%s"}}', CODE: 'look("%s")'}
    read = reader(SPEC, action_format)
    if action_format is ActionFormat.REACT:
        assert parse_line("Action: a\ud83d").command == "a\ud83d", "the plain parser leaves it"
        assert read("Thought: \ude00\nAction: a \ud83d b") == Action("a b", "\ufffd")
    elif action_format is ActionFormat.TAGS:
        assert read("<think>so</think><action>a \ud83d</action>") == Action("a \ufffd", "so", True)
    else:
        assert read(escaped[action_format] % r"\ud83d!") == Action("look at \ufffd!")
        assert read(escaped[action_format] % r"\ud83d\ude00") == Action("look at \U0001f600")


def test_a_parser_that_fails_gives_an_invalid_action_that_says_so(caplog):
    def broken(response):
        raise KeyError(response)

    action = guarded(broken)("x" * 5000)
    assert isinstance(action, InvalidAction) and "could not be read" in action.observation
    assert action.fault.startswith("KeyError: 'xxx") and len(action.fault) < 2 * ECHO
    assert "a bug: the parser failed on 'xxx" in caplog.text


@given(st.text(st.characters(), max_size=200))
def test_text_that_can_be_encoded_stays_as_it_is(text):
    made = encodable(text)
    made.encode()
    assert encodable(made) is made
    assert (made == text) == (not any("\ud800" <= letter <= "\udfff" for letter in text))


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("<think>so</think>\n<action> Look </action>", Action("Look", "so", True)),
        ("<action>look</action><think>so</think>", Action("look", "so", True)),
        ("<think></think><action></action>", Action("", "", True)),
        ("<action>look</action>", Action("look", "", False)),
        ("<THINK>so</THINK><ACTION>look</ACTION>", Action("look", "", False)),
        ("<think>so, \u597d</think><action>look</action>", Action("look", "so, \u597d", False)),
        ("<think>so</think><action>a</action><action>b</action>", Action("a", "so", True)),
        (
            "<think>so</think><action>look, which is cut before its end",
            Action("on>look, which is cut before its end"[-30:], "", False),
        ),
        ("", Action("", "", False)),
    ],
)
def test_tags_are_read_as_verl_agent_does(reply, action):
    """Its projection.py: a missing tag or a Chinese character is what makes a turn invalid there."""
    assert parse_tags(reply) == reader(SPEC, ActionFormat.TAGS)(reply) == action
    assert parse_tags(reply, lower=True).command == action.command.lower()


def test_tags_are_explained_after_an_instruction_of_another_form():
    first, *_ = opening(SPEC, "agentgym", ActionFormat.TAGS)
    assert "within <action> </action> tags" in first["content"]
    assert reader(SPEC, ActionFormat.TAGS)(write(SPEC, ActionFormat.TAGS, "wait 3", "so")) == Action(
        "wait 3", "so", True
    )
