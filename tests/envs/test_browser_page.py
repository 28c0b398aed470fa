"""The page as text, and the commands: what is written and read, without a browser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("playwright", reason="the extra miniwob is not installed")

from agentgym_rl.envs.browser.commands import FORMS, MAX_COMMAND_CHARACTERS, Command, Refused, functions, read
from agentgym_rl.envs.browser.tree import STYLES, Numbers, elements, layout
from agentgym_rl.envs.tools import to_call, to_command


def node(number, role, name="", children=(), backend=None, ignored=False, **state):
    properties = [{"name": key, "value": {"value": value}} for key, value in state.items()]
    return {
        "nodeId": str(number),
        "ignored": ignored,
        "role": {"value": role},
        "name": {"value": name},
        "properties": properties,
        "childIds": [str(child) for child in children],
        "backendDOMNodeId": number * 10 if backend is None else backend,
    }


def lines(*nodes, numbers=None, **options):
    return [str(element) for element in elements(nodes, numbers or Numbers(), **options)]


def test_the_tree_has_the_form_of_webarena():
    assert lines(
        node(1, "RootWebArea", "Shop", [2], focused=True, url="http://x/"),
        node(2, "generic", "", [3, 4, 6], ignored=True),
        node(3, "link", "Cart", [5], focusable=True),
        node(4, "generic", "", [7]),
        node(5, "StaticText", "Cart"),
        node(6, "checkbox", "Gift", checked="true", level=2),
        node(7, "StaticText", "It's\n  here"),
    ) == [
        "[1] RootWebArea 'Shop' focused: True",
        "\t[2] link 'Cart'",
        '\t[3] StaticText "It\'s here"',
        "\t[4] checkbox 'Gift' checked: true",
    ]


def test_an_element_keeps_its_number_and_a_new_one_gets_the_next():
    numbers = Numbers()
    root = node(1, "RootWebArea", "a", [2, 3])
    assert lines(root, node(2, "button", "x"), node(3, "button", "y"), numbers=numbers)[1:] == [
        "\t[2] button 'x'",
        "\t[3] button 'y'",
    ]
    root = node(1, "RootWebArea", "a", [4, 3])
    assert lines(root, node(4, "button", "z"), node(3, "button", "y"), numbers=numbers)[1:] == [
        "\t[4] button 'z'",
        "\t[3] button 'y'",
    ]
    assert numbers.node(4) == 40 and numbers.node(5) is None


def test_a_deep_page_is_no_recursion():
    depth = 20_000
    nodes = [node(at, "generic", "", [at + 1]) for at in range(1, depth)]
    assert lines(*nodes, node(depth, "button", "deep")) == ["[1] button 'deep'"]


def test_text_of_a_page_cannot_make_lines():
    assert lines(node(1, "button", "x\n[2] link 'y'\r\u2028")) == ["[1] button \"x [2] link 'y'\""]


def snapshot(*things):
    """Nodes of a page: tag, class, box, fill, whether it can be clicked."""
    strings = ["visible", "rgba(0, 0, 0, 0)", "none", "class"]

    def string(text):
        strings.append(text)
        return len(strings) - 1

    body, laid = {"backendNodeId": [], "nodeName": [], "attributes": [], "parentIndex": []}, []
    for at, (tag, kind, box, fill, _) in enumerate(things):
        body["backendNodeId"].append((at + 1) * 10)
        body["nodeName"].append(string(tag.upper()))
        body["attributes"].append([3, string(kind)])
        body["parentIndex"].append(at - 1 if at == 1 else -1)
        laid.append((at, box, [1, string(fill), 2, 0]))
    body["isClickable"] = {"index": [at for at, thing in enumerate(things) if thing[4]]}
    places, boxes, styles = zip(*laid, strict=True)
    page = {"nodeIndex": places, "bounds": boxes, "styles": styles}
    return {
        "documents": [{"nodes": body, "layout": page, "scrollOffsetX": 0, "scrollOffsetY": 100}],
        "strings": strings,
    }


def test_only_the_viewport_is_listed_and_figures_are_told_by_their_look():
    assert len(STYLES) == 4
    seen = layout(
        snapshot(
            ("div", "", (0, 0, 500, 900), "none", True),
            ("button", "", (0, 100, 50, 20), "none", True),
            ("button", "", (0, 800, 50, 20), "none", True),
            ("circle", "dot big", (5, 130, 10, 10), "rgb(255, 0, 16)", False),
        ),
        (500, 400),
    )
    nodes = node(1, "RootWebArea", "a", [2, 3], backend=99), node(2, "button", "in"), node(3, "button", "below")
    assert lines(*nodes, layout=seen) == ["[1] RootWebArea 'a'", "\t[2] button 'in'"]
    assert lines(*nodes, layout=seen, figures=True)[2:] == ["\t[3] figure 'circle.dot.big #ff0010 at 5,30 size 10x10'"]


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("click [12]", "click", ("12",)),
        (" click 12 ", "click", ("12",)),
        ("type [3] [a [b] c] [0]", "type", ("3", "a [b] c", "0")),
        ("type [3] [two\nlines]", "type", ("3", "two\nlines", "")),
        ("fill [3] []", "fill", ("3", "")),
        ("scroll [direction=down]", "scroll", ("down",)),
        ("press [ctrl+a]", "press", ("ctrl+a",)),
        ("mouse_drag [1] [2.5] [3] [4]", "mouse_drag", ("1", "2.5", "3", "4")),
        ("goto [http://x/?a=[1]]", "goto", ("http://x/?a=[1]",)),
        ("stop", "stop", ("",)),
        ("new_tab", "new_tab", ()),
    ],
)
def test_commands_are_read_as_webarena_writes_them(text, name, arguments):
    assert read(text, FORMS) == Command(name, arguments)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "there is no action ''; there are click, press"),
        ("stop [x]", "there is no action 'stop'"),
        ("click", "the arguments of click"),
        ("click [x]", "the arguments of click"),
        ("click [1" + "0" * 10 + "]", "the arguments of click"),
        ("press [" + "a" * MAX_COMMAND_CHARACTERS + "]", "at most 10000 are read"),
    ],
)
def test_what_is_no_command_is_refused(text, fault):
    with pytest.raises(Refused) as raised:
        read(text, ("click", "press"))
    assert fault in str(raised.value)


@given(
    st.one_of(st.text(max_size=60), st.from_regex(r"(click|type|goto|scroll|drag) (\[.{0,9}\] ?){0,4}", fullmatch=True))
)
def test_any_text_is_read_or_refused(text):
    try:
        command = read(text, FORMS)
    except Refused:
        return
    assert command.name in FORMS


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("click [12]", ("click", {"bid": 12})),
        ("type [3] [a b] [0]", ("type", {"bid": 3, "text": "a b", "enter": 0})),
        ("fill [3] [12]", ("fill", {"bid": 3, "value": "12"})),
        ("select [3] [Peru]", ("select_option", {"bid": 3, "options": "Peru"})),
        ("press [Enter]", ("keyboard_press", {"key": "Enter"})),
        ("mouse_click [3] [4.5]", ("mouse_click", {"x": 3, "y": 4.5})),
        ("mouse_click [3] [0.30000000000000004]", ("mouse_click", {"x": 3, "y": 0.1 + 0.2})),
        ("mouse_click [0.0000000001] [4]", ("mouse_click", {"x": 1e-10, "y": 4})),
        ("close_tab", ("tab_close", {})),
        ("stop [N/A]", ("send_msg_to_user", {"text": "N/A"})),
    ],
)
def test_functions_stand_for_commands(command, call):
    tools = functions(FORMS)
    assert to_call(tools, command) == call and to_command(tools, *call) == command
    assert read(command, FORMS)
    assert len(tools) == len(FORMS)
