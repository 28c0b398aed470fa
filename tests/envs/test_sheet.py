"""Sheet: tools on a workbook, formulas, tasks judged by the workbook they leave, AgentGym's files."""

import asyncio
import json
import random
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import some, swept
from tool_sessions import call, run_episode

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.actions import Action, ActionFormat
from agentgym_rl.envs.core import ProtocolError, Style, TaskNotFound
from agentgym_rl.envs.formats import reader
from agentgym_rl.envs.tooluse import Refused
from agentgym_rl.envs.tooluse.sheet import Sheet
from agentgym_rl.envs.tooluse.sheet.book import FUNCTIONS, Book
from agentgym_rl.envs.tooluse.sheet.formula import FormulaError, evaluate, moved
from agentgym_rl.envs.tooluse.sheet.grid import BROKEN, Grid
from agentgym_rl.envs.tooluse.sheet.judge import Judge
from agentgym_rl.envs.tooluse.sheet.xlsx import read_xlsx

SIZES = {"train": 400, "test": 100, "train_variants": 10_000, "val_variants": 1_000, "test_variants": 1_000}
STEPS = {"train": 1, "test": 1, "train_variants": 499, "val_variants": 49, "test_variants": 49}


def few(split: str) -> list[int]:
    return list(Sheet().spec.splits[split][:: STEPS[split]])


DONE = call("finish", answer="done")


def find(text: str) -> tuple[int, list[str]]:
    """Index and plan of a training task whose goal has these words."""
    env = Sheet()
    tasks = (Task("sheet", index) for index in env.spec.splits["train"])
    task = next(task for task in tasks if text in env.goal(task))
    return task.index, env.oracle(task)


GOAL = 'In "Sheet1", sort the table by "Task" in ascending order; the header stays the first row.'
HEADER = "['Task', 'Team', 'Status', 'Planned Hours', 'Extra Hours', 'Budget']"
VISIT = "['Client Visit', 'IT', 'Started', '38', '14', '900']"
REVIEW = "['Budget Review', 'IT', 'Open', '3', '5', '550']"
SAFETY = "['Safety Check', 'Finance', 'Blocked', '37', '1', '1250']"
PRESS = "['Press Event', 'Marketing', 'Done', '6', '9', '2450']"


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
                observed("ERROR | Please open a sheet before operating it"),
                observed("You have opened Sheet1"),
                observed(f"[{HEADER}, {VISIT}, {REVIEW}, {SAFETY}, {PRESS}]"),
                observed("You have frozen 1 rows"),
                observed(f"[{HEADER}, {REVIEW}, {VISIT}, {PRESS}, {SAFETY}]"),
                observed("done"),
            ],
        ),
        (
            "compact",
            [
                GOAL,
                "invalid: Please open a sheet before operating it",
                "done",
                "Task | Team | Status | Planned Hours | Extra Hours | Budget; "
                "Client Visit | IT | Started | 38 | 14 | 900; Budget Review | IT | Open | 3 | 5 | 550; "
                "Safety Check | Finance | Blocked | 37 | 1 | 1250; Press Event | Marketing | Done | 6 | 9 | 2450",
                "done",
                "done",
                "done",
            ],
        ),
    ],
)
@pytest.mark.parametrize("finish", [DONE, "finish with Action Input: {}"])
def test_transcript(style: Style, expected: list[str], finish: str) -> None:
    first, steps = run_episode(
        Sheet(style),
        1001,
        call("get_all_values"),
        call("open_sheet", name="Sheet1"),
        call("get_all_values"),
        call("freeze_data", dimension="rows", num=1),
        call("sort_sheet_by_col", col_num=1, order="asc"),
        finish,
    )
    assert [first, *(step.observation.text for step in steps)] == expected
    assert [step.reward for step in steps] == [0.0] * 5 + [1.0]
    assert [step.info["raw_reward"] for step in steps] == [0.0] * 4 + [1.0] * 2
    assert [step.info["invalid"] for step in steps] == [True, False, False, False, False, False]
    assert [step.terminated for step in steps] == [False] * 5 + [True]


@pytest.mark.parametrize("finish", ["finish", "finish with Action Input:", "finish with Action Input: {}"])
def test_finish_needs_no_answer_in_any_format(finish: str) -> None:
    env = Sheet()
    responses = {
        ActionFormat.REACT: f"Action: {finish}",
        ActionFormat.FUNCTION_CALLING: '{"function_name": "finish", "arguments": {}}',
        ActionFormat.CODE_AS_ACTION: "```python\nfinish()\n```",
    }
    plan = env.oracle(Task("sheet", 1001))[:-1]
    for action_format, response in responses.items():
        action = reader(env.spec, action_format)(response)
        assert isinstance(action, Action)
        _, steps = run_episode(env, 1001, *plan, action.command)
        assert steps[-1].terminated and steps[-1].reward == 1 and not steps[-1].info["invalid"]
        assert steps[-1].observation.text == observed("done")
    _, (refused,) = run_episode(env, 1001, call("finish", answer=[[1]]))
    assert refused.info["invalid"] and not refused.terminated
    assert "finish" not in [tool.name for tool in env.probes]


def test_a_plan_of_a_file_may_finish_without_an_answer(tmp_path: Path) -> None:
    plan = [["open_sheet", {"name": "Sheet1"}], ["finish", {}]]
    file = tmp_path / "tasks.jsonl"
    file.write_text(
        json.dumps({"start": 1001, "instruction": "Open a sheet.", "check": {"answer": "done"}, "plan": plan})
    )
    env = Sheet(tasks=str(file))
    _, steps = run_episode(env, 0, *env.oracle(Task("sheet", 0)))
    assert [step.reward for step in steps] == [0, 1]


@pytest.mark.sweep
@pytest.mark.parametrize(("split", "style"), [("train", "compact"), ("test", "agentgym")])
def test_oracle_solves(split: str, style: Style) -> None:
    env = Sheet(style)
    for index in some(few(split)):
        plan = env.oracle(Task("sheet", index))
        low, _, high = env.difficulty(Task("sheet", index)).removeprefix("calls ").partition("-")
        assert int(low) <= len(plan) <= int(high or low) <= env.spec.max_turns
        _, steps = run_episode(env, index, *plan)
        assert len(steps) == len(plan)
        assert not any(step.info["invalid"] for step in steps)
        assert [step.reward for step in steps] == [0.0] * (len(plan) - 1) + [1.0], env.goal(Task("sheet", index))


@pytest.mark.slow
def test_splits_have_their_sizes_and_share_no_workbook() -> None:
    env = Sheet()
    assert {split: len(indices) for split, indices in env.spec.splits.items()} == SIZES
    books = Counter(env.goal(Task("sheet", index)).rpartition("(")[2] for split in SIZES for index in few(split))
    assert max(books.values()) == 1
    counts = Counter(env.difficulty(Task("sheet", index)) for index in few("train"))
    assert counts == {"calls 4": 100, "calls 5-6": 100, "calls 7-8": 100, "calls 9-12": 100}


def test_anything_else_changed_fails() -> None:
    index, plan = find("delete the row of")
    opened = plan[0]
    for more in (
        call("update_cell", position="Z9", value=1),
        call("update_note", position="A1", content="mine"),
        call("merge_cells", start_position="A20", end_position="B20"),
        call("insert_cols", values_list=[["x"]], col_idx=1),
    ):
        _, steps = run_episode(Sheet(), index, *plan[:-1], more, DONE)
        assert not steps[-2].info["invalid"]
        assert steps[-1].reward == 0.0 and steps[-1].info["raw_reward"] < 1.0
    frozen = call("freeze_data", dimension="rows", num=1)
    assert run_episode(Sheet(), index, opened, frozen, *plan)[1][-1].reward == 1.0
    assert run_episode(Sheet(), index, DONE)[1][-1].reward == 0.0


@pytest.mark.slow
def test_other_sheets_must_stay() -> None:
    index, plan = find('In "Sheet2", delete the row of')
    assert run_episode(Sheet(), index, call("del_sheet", name="Sheet1"), *plan)[1][-1].reward == 0.0
    other = [call("open_sheet", name="Sheet1"), call("update_cell", position="A1", value="x")]
    assert run_episode(Sheet(), index, *other, *plan)[1][-1].reward == 0.0


@pytest.mark.parametrize(("by", "share"), [(0.0, 1.0), (0.005, 1.0), (0.02, 0.5), (-1.0, 0.5)])
def test_numbers_may_be_rounded(by: float, share: float) -> None:
    start, after = Book({"S": Grid.of([["a", 1.0]])}), Book({"S": Grid.of([["b", 2.5]])})
    now = Book({"S": Grid.of([["b", 2.5 + by]])})
    assert Judge(start, after)(now, None) == share
    assert Judge(start, after)(start, None) == 0.0
    assert Judge(start, after, only="S")(now, None) == share


def test_a_sheet_that_must_stay_as_it_is() -> None:
    start, now = Book({"S": Grid.of([["a", 1.0]])}), Book({"S": Grid.of([["b", 1.0]])})
    judge = Judge(start, start.copy(), only="S")
    assert [judge(start, None), judge(now, None)] == [1.0, 0.0]


CELLS: dict[tuple[int, int], str | float] = {(1, 1): 2.0, (1, 2): 3.0, (2, 1): "text", (2, 2): 4.5}


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("=A1+B1*2", 8.0),
        ("=-(A1-B1)/2", 0.5),
        ("=SUM(A1:B2)", 9.5),
        ("=sum(A1, B1, 10)", 15.0),
        ("=AVERAGE(A1:B1)", 2.5),
        ("=COUNT(A1:B2)", 3.0),
        ("=MAX(A1:C9)", 4.5),
        ("=MIN(C1:C9)", 0.0),
        ("=MINUS(B1,A1)", 1.0),
        ("=PRODUCT(A1:B1)", 6.0),
        ("=ROUND(10/3, 2)", 3.33),
        ("=ROUND(2.5, 0)", 3.0),
        ("=ROUND(-1.005, 2)", -1.01),
        ("=ROUND(1250, -2)", 1300.0),
        ('=IF(A1<B1, "less", "more")', "less"),
        ("=IF(A2=1, 1, 0)", 0.0),
        ("=IF(C1, A1/C1, 0)", 0.0),
        ("=IF(A1, 1, SUM(A2+1))", 1.0),
        ("=IF(A1>1, IF(C1>0, 1/0, B1), A2+1)", 3.0),
        ('=A2="TEXT"', 1.0),
        ('=A2<>"Text"', 0.0),
        ('="b"="a"', 0.0),
        ("=A1=2", 1.0),
        ('=A1="2"', 0.0),
        ("=C1=0", 1.0),
        ("=C1<1", 1.0),
        ('=C1=""', 1.0),
        ("=IF(C1=0, 0, A1/C1)", 0.0),
        ("=C7", ""),
        ("=A2", "text"),
    ],
)
def test_formulas(formula: str, value: str | float) -> None:
    assert evaluate(formula, lambda y, x: CELLS.get((y, x), "")) == value


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("=", "ends too early"),
        ("=1/0", "division by zero"),
        ("=AVERAGE(C1:C9)", "AVERAGE of no numbers"),
        ("=A2+1", "'text' is not a number"),
        ("=IF(A1, 1/0, 1)", "division by zero"),
        ("=IF(C1, 1, A2+1)", "'text' is not a number"),
        ("=IF(1/0, 1, 2)", "division by zero"),
        ("=IF(A1, 1, 2 3)", "expected ','"),
        ("=IF(A1, A1:B2, 1)", "a range must stand in a function"),
        ("=VLOOKUP(A1,B1)", r"VLOOKUP with 2 arguments is no function; there are SUM, AVERAGE"),
        ("=A1:B2", "a range must stand in a function"),
        ("=A1 B1", "unexpected 'B1'"),
        ("=A999", "'A999' is no cell"),
        ("=SUM(A1:Z100)+SUM(A1:Z100)", "at most 3000 cells"),
        ("=__import__('os')", "cannot read"),
        ("=" + "(" * 9 + "1" + ")" * 9, "at most 5 brackets"),
        ("=" + "9*" * 70 + "1", "at most 120 characters"),
        (f"={'9' * 100}*{'9' * 10}*1", "too large|at most"),
    ],
)
def test_faulty_formulas(formula: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        value = evaluate(formula, lambda y, x: CELLS.get((y, x), ""))
        assert value == pytest.approx(1e110, rel=1)  # only the last has one
        raise FormulaError("too large")


@given(st.text(alphabet='=AB12:(),+-*/<>SUMIF" .', max_size=40))
def test_any_formula_is_evaluated_or_refused(text: str) -> None:
    try:
        value = evaluate(f"={text}", lambda y, x: CELLS.get((y, x), ""))
    except FormulaError:
        return
    assert isinstance(value, (str, float))


def test_cells_of_a_formula_move() -> None:
    down = lambda y, x: None if y == 2 else (y - (y > 2), x)  # noqa: E731
    assert moved('=SUM(A3:A1)+A3+A2&"A3"+A999', down) == '=SUM(A1:A2)+A2+#REF!&"A3"+#REF!'


def book(*rows: list[Any]) -> Book:
    opened = Book({"Sheet1": Grid.of(rows), "Other": Grid.of([["x"]])})
    opened.open_sheet("Sheet1")
    return opened


def test_formulas_stay_alive() -> None:
    sheet = book(["n", 3.0, 1.0], ["m", 5.0, 2.0])
    sheet.update_cell("D1", "=B1*C1")
    sheet.update_cell("D2", "=B2*C2")
    sheet.update_cell_by_formula("SUM", "D3", start_position="D1", end_position="D2")
    assert sheet.get_cell_value("D3") == "13"
    sheet.update_cell("B1", "10")
    assert sheet.get_cell_value("D3") == "20"
    sheet.insert_rows([["k", 1, 1, "=B1*C1"]], 1)
    assert sheet.get_range_values("D1", "D4") == [["1"], ["10"], ["10"], ["20"]]
    sheet.delete_batch_data("row", [1, 2])
    assert sheet.get_all_values() == [["m", "5", "2", "10"], ["", "", "", "10"]]
    sheet.delete_batch_data("col", [3])
    assert sheet.get_cell_value("C1") == BROKEN


@pytest.mark.parametrize("total", ["A1", "A5"])
def test_what_builds_on_an_error_is_one_wherever_it_stands(total: str) -> None:
    sheet = book([""], [2.0], ["=B2"], [4.0])
    sheet.update_cell("B2", 7)
    sheet.update_cell_by_formula("SUM", total, start_position="A2", end_position="A4")
    assert sheet.get_cell_value(total) == "13"
    sheet.delete_batch_data("col", [2])
    assert [sheet.get_cell_value(cell) for cell in ("A3", total)] == [BROKEN, BROKEN]
    with pytest.raises(Refused, match="A3 has no value"):
        sheet.get_value_by_formula("SUM", start_position="A2", end_position="A4")


@pytest.mark.parametrize(
    ("entered", "text"),
    [
        ("13800138000", "13800138000"),
        (123456789012345, "123456789012345"),
        ("=1/3", "0.3333333333"),
        ("=-C9", "0"),
        ("=ROUND(-0.001, 2)", "0"),
        ("-0", "0"),
    ],
)
def test_numbers_are_shown_as_spreadsheets_do(entered: str | float, text: str) -> None:
    sheet = book([1.0, 2.0])
    sheet.update_cell("A1", entered)
    assert sheet.get_cell_value("A1") == text


def test_sorting_takes_formulas_and_notes_along() -> None:
    sheet = book(["name", "a", "b"], ["x", 1.0, 9.0], ["y", 2.0, 8.0], ["", "", 7.0])
    for row in (2, 3):
        sheet.update_cell(f"D{row}", f"=B{row}+C{row}*10")
    sheet.update_note("A2", "first")
    sheet.freeze_data("rows", 1)
    assert sheet.sort_sheet_by_col(2, "des")[1:] == [["y", "2", "8", "82"], ["x", "1", "9", "91"], ["", "", "7", ""]]
    assert (sheet.get_note("A2"), sheet.get_note("A3")) == ("", "first")
    sheet.freeze_data("rows", 0)
    assert [row[0] for row in sheet.sort_sheet_by_col(2, "asc")] == ["x", "y", "name", ""]


def test_merged_cells_show_the_same() -> None:
    sheet = book(["", "total"], [1.0, 2.0])
    assert sheet.merge_cells("A1", "B1")[0] == ["total", "total"]
    sheet.update_cell("B1", "sum")
    assert sheet.get_all_values()[0] == ["sum", "sum"]
    with pytest.raises(Refused, match="overlaps"):
        sheet.merge_cells("B1", "B2")
    with pytest.raises(Refused, match="merged cells cannot be sorted"):
        sheet.sort_sheet_by_col(1, "asc")
    sheet.insert_cols([["new"]], 2)
    assert sheet.grid.merged == [(1, 1, 1, 3)]
    sheet.delete_batch_data("col", [2, 3])
    assert sheet.grid.merged == []


def test_reading_tools() -> None:
    sheet = book(["name", "n"], ["pear", 5.0], ["peach", 15.0])
    assert sheet.get_A1_annotation(3, 2) == "B3"
    assert sheet.get_range_values("A2", "B2") == [["pear", "5"]]
    assert sheet.get_value_by_formula("MINUS", position_list=["B3", "B2"]) == "10"
    assert sheet.filter_cells("^pea") == ["A2", "A3"]
    assert sheet.filter_cells("5", in_column=2) == ["B2", "B3"]
    assert sheet.filter_cells(r"8[1-9]|\d{2,}", in_row=3) == ["B3"]
    assert sheet.update_range("A2", "B3", [["fig", None], [7]])[1:] == [["fig", "5"], ["7", "15"]]


@pytest.mark.parametrize("query", ["(a+)+$", "(a|a)(a|a)(a|a)", "a*a*a*", r"(a)\1", "(?=a)", "(", "[", "x" * 101])
def test_searches_cannot_take_long(query: str) -> None:
    with pytest.raises(Refused, match="query"):
        book(["a" * 100]).filter_cells(query)


@pytest.mark.parametrize(
    "action",
    [
        "",
        "get_all_values",
        call("open_sheet", name="Sheet7"),
        call("open_sheet"),
        call("update_cell", position="AA1", value=1),
        call("update_cell", position="A101", value=1),
        call("update_cell", position="A1", value="=A1"),
        call("update_cell", position="A1", value="=FOO(1)"),
        call("update_cell", position="A1", value="x" * 300),
        'update_cell with Action Input: {"position": "A1", "value": 1e999}',
        call("update_cell_by_formula", operator="SUM", result_position="H1"),
        call("update_cell_by_formula", operator="MEDIAN", result_position="H1", position_list=["D2"]),
        call("update_range", start_position="A1", end_position="F5", values_list=[["x"]]),
        call("update_range", start_position="A1", end_position="A2", values_list=[["x", "y"]]),
        call("update_range", start_position="B2", end_position="A1", values_list=[["x"]]),
        call("update_range", start_position="A1", end_position="A2", values_list="x"),
        call("insert_rows", values_list=[["x"]], row_idx=9),
        call("insert_cols", values_list=[["x"]] * 30),
        call("delete_batch_data", dimension="row", index_list=[1, 2, 3, 4, 5]),
        call("delete_batch_data", dimension="row", index_list=[0]),
        call("sort_sheet_by_col", col_num=9, order="asc"),
        call("sort_sheet_by_col", col_num=1, order="up"),
        call("merge_cells", start_position="A1", end_position="A1"),
        call("freeze_data", dimension="rows", num=-1),
        call("get_note", position="1A"),
        call("update_note", position="A1", content="x" * 300),
    ],
)
def test_what_cannot_be_done_is_invalid_and_changes_nothing(action: str) -> None:
    plan = Sheet().oracle(Task("sheet", 1001))
    _, steps = run_episode(Sheet(), 1001, plan[0], action, *plan)
    assert steps[1].info["invalid"]
    assert steps[-1].reward == 1.0


def test_step_out_of_order() -> None:
    env = make("sheet")
    assert isinstance(env, Sheet)
    with pytest.raises(ProtocolError):
        asyncio.run(env.step(DONE))
    run_episode(env, 1001, DONE)
    with pytest.raises(ProtocolError):
        asyncio.run(env.step(DONE))


@pytest.mark.parametrize("index", [0, 19])
def test_official_index_names_the_options(index: int) -> None:
    with pytest.raises(TaskNotFound, match=r"official and workbook, .*sheet\.jsonl"):
        Sheet().goal(Task("sheet", index))


@pytest.mark.parametrize("index", [20, 999, 1_500, 14_000, -1])
def test_index_outside_the_environment(index: int) -> None:
    with pytest.raises(TaskNotFound, match=f"sheet has no task {index}"):
        Sheet().difficulty(Task("sheet", index))


NAMES = st.sampled_from(["Sheet1", "Sheet2", "Sheet9"])
PLACES = st.sampled_from(["A1", "B2", "C3", "F5", "G2", "Z100", "A0", "b2"])
VALUES = st.sampled_from([1, -2.5, "7", "text", "=SUM(A1:G9)", "=B2*2", "=A1+", None, True, "", 3.0])
LINES = st.lists(st.lists(VALUES, max_size=3), max_size=3)
NUMBERS = st.integers(-1, 9)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "name": NAMES,
    "position": PLACES,
    "start_position": PLACES,
    "end_position": PLACES,
    "result_position": PLACES,
    "position_list": st.lists(PLACES, max_size=3),
    "value": VALUES,
    "values_list": LINES,
    "index_list": st.lists(NUMBERS, max_size=3),
    "operator": st.sampled_from(["SUM", "AVERAGE", "MINUS", "MEDIAN"]),
    "dimension": st.sampled_from(["row", "col", "rows", "columns"]),
    "order": st.sampled_from(["asc", "des"]),
    "query": st.sampled_from(["1", "^.*a", "("]),
    "content": st.sampled_from(["", "note"]),
}
CALLS = st.one_of(
    *(
        st.fixed_dictionaries(
            {name: KINDS.get(name, NUMBERS) for name in function.tool.parameters if name not in function.tool.optional},
            optional={name: KINDS.get(name, NUMBERS) for name in function.tool.optional},
        ).map(lambda arguments, name=function.tool.name: call(name, **arguments))  # type: ignore[misc]
        for function in FUNCTIONS.values()
    )
)


@settings(max_examples=swept(40), deadline=None)
@given(st.lists(st.one_of(CALLS, st.text(max_size=20)), min_size=5, max_size=40), st.booleans())
def test_a_walk_is_answered_briefly_and_can_be_replayed(actions: list[str], finish: bool) -> None:
    actions = [call("open_sheet", name="Sheet1"), *actions, *([DONE] if finish else [])]
    env = Sheet()
    _, steps = run_episode(env, 1001, *actions)
    assert run_episode(env, 1001, *actions)[1] == steps
    assert sum(step.reward for step in steps) in (0.0, 1.0)
    assert all(0.0 <= step.info["raw_reward"] <= 1.0 and len(step.observation.text) < 4_000 for step in steps)


@pytest.mark.sweep
def test_long_walks_at_random() -> None:
    rng = random.Random(0)
    env = Sheet("compact")
    for index in some(few("train")[:40]):
        plan = env.oracle(Task("sheet", index))[:-1]
        pool = [
            *plan,
            call("delete_batch_data", dimension="row", index_list=[2]),
            "qwzx",
            call("get_note", position="A2"),
        ]
        _, steps = run_episode(env, index, *rng.choices(pool, k=250))
        assert all(step.reward == 0.0 and not step.done for step in steps)


MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
LINK = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
LINKS = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'


def official(folder: Path) -> dict[str, str]:
    """Two tasks in the form of AgentGym's files, one workbook of two sheets and an answer."""
    rows = (
        '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>n</t></is></c></row>'
        '<row r="2"><c r="A2" t="str"><v>pear</v></c><c r="B2"><f>2+3</f><v>5.0</v></c><c r="AA2" s="3"/></row>'
        '<row r="3"><c r="A3" t="b"><v>1</v></c><c r="B3"><v>1.5</v></c></row>'
    )
    files = {
        "xl/workbook.xml": f'<workbook {MAIN} xmlns:r="{LINK}"><sheets><sheet name="Sheet1" r:id="r1"/>'
        '<sheet name="Sheet2" r:id="r2"/><sheet name="Answer1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships {LINKS}><Relationship Id="r1" Target="worksheets/s1.xml"/>'
        '<Relationship Id="r2" Target="/xl/worksheets/s2.xml"/></Relationships>',
        "xl/sharedStrings.xml": f"<sst {MAIN}><si><r><t>na</t></r><r><t>me</t></r></si></sst>",
        "xl/worksheets/s1.xml": f"<worksheet {MAIN}><sheetData>{rows}</sheetData></worksheet>",
        "xl/worksheets/s2.xml": f'<worksheet {MAIN}><sheetData><row r="1"><c r="B1"><v>4</v></c></row></sheetData>'
        '<mergeCells><mergeCell ref="A1:B1"/></mergeCells></worksheet>',
        "xl/worksheets/_rels/s1.xml.rels": f'<Relationships {LINKS}><Relationship Id="c" Type="{LINK}/comments" '
        'Target="../comments1.xml"/></Relationships>',
        "xl/comments1.xml": f'<comments {MAIN}><commentList><comment ref="A2"><text><t>ripe</t></text></comment>'
        "</commentList></comments>",
    }
    with zipfile.ZipFile(folder / "book.xlsx", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    tasks = [
        ('In "Sheet1", set pear to 6.', [["name", "n"], ["pear", "6.00"], ["TRUE", "1.5"]]),
        ('Delete the first column of "Sheet2".', [["4"]]),
    ]
    lines = [
        {"goal": goal, "subgoals": "", "additional_info": {"answer": json.dumps(table), "init_config": None}}
        for goal, table in tasks
    ]
    (folder / "sheet.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return {"official": str(folder / "sheet.jsonl"), "workbook": str(folder / "book.xlsx")}


def test_excel_files_are_read(tmp_path: Path) -> None:
    sheets = read_xlsx(official(tmp_path)["workbook"])
    assert list(sheets) == ["Sheet1", "Sheet2", "Answer1"]
    assert sheets["Sheet1"].values() == [["name", "n"], ["pear", 5.0], ["TRUE", 1.5]]
    assert sheets["Sheet1"].notes == {(2, 1): "ripe"}
    assert sheets["Sheet2"].values() == [[4.0, 4.0]]


def altered(path: str, changes: dict[str, str], compression: int = zipfile.ZIP_DEFLATED) -> str:
    """The workbook with other texts in some of its files."""
    with zipfile.ZipFile(path) as archive:
        files = {file: archive.read(file).decode() for file in archive.namelist()} | changes
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


PART, BOOK = "xl/worksheets/s2.xml", "xl/workbook.xml"
SHEETS = "".join(f'<sheet name="{n}" r:id="r1"/>' for n in range(20))
LAUGHS = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
HOSTILE = {
    "a large part": ({PART: f"<a>{' ' * (16 << 20)}</a>"}, "more than 16 MiB unpacked"),
    "one part for many sheets": (
        {BOOK: f'<a {MAIN} xmlns:r="{LINK}">{SHEETS}</a>', "xl/worksheets/s1.xml": f"<a>{' ' * (1 << 20)}</a>"},
        "more than 16 MiB unpacked",
    ),
    "entities of entities": ({PART: f'<!DOCTYPE x [<!ENTITY e0 "ha">{LAUGHS}]><x>&e11;</x>'}, "amplification"),
    "a file of this machine": (
        {PART: '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>'},
        "undefined entity",
    ),
    "a file that is not there": ({BOOK: f'<a {MAIN} xmlns:r="{LINK}"><sheet name="a" r:id="../x"/></a>'}, "KeyError"),
    "many elements": ({PART: "<a>" * 200_000 + "</a>" * 200_000}, None),
    "an unknown encoding": ({PART: '<?xml version="1.0" encoding="rot13"?><a/>'}, "encoding"),
    "a place outside": ({PART: f'<a {MAIN}><c r="ZZ99"><v>1</v></c></a>'}, "outside a sheet"),
    "an area outside": ({PART: f'<a {MAIN}><mergeCell ref="A1:XFD1048576"/></a>'}, "outside a sheet"),
    "a text that is not there": ({PART: f'<a {MAIN}><c r="A1" t="s"><v>99</v></c></a>'}, "IndexError"),
    "a number of many digits": ({PART: f'<a {MAIN}><c r="A1" t="s"><v>{"9" * 5000}</v></c></a>'}, "ValueError"),
    "a formula as text": ({PART: f'<a {MAIN}><c r="A1" t="inlineStr"><t>=A1*A1</t></c></a>'}, None),
}


@pytest.mark.parametrize(("changes", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_workbooks_are_refused_or_harmless(
    tmp_path: Path, changes: dict[str, str], message: str | None
) -> None:
    book = altered(official(tmp_path)["workbook"], changes)
    begun = time.process_time()
    if message is None:
        assert all(grid.values() is not None for grid in read_xlsx(book).values())
    else:
        with pytest.raises(ValueError, match=rf"book\.xlsx cannot be read as an Excel workbook.*{message}"):
            read_xlsx(book)
    assert time.process_time() - begun < 10


@settings(max_examples=swept(100), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_damaged_workbooks_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng, folder = random.Random(seed), tmp_path_factory.getbasetemp()
    kinds = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    book = Path(altered(official(folder)["workbook"], {}, rng.choice(kinds)))
    content = bytearray(book.read_bytes())
    for _ in range(rng.randint(1, 4)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    if rng.random() < 0.2:
        del content[rng.randrange(len(content)) :]
    book.write_bytes(content)
    try:
        read_xlsx(book)
    except ValueError as error:
        assert "book.xlsx cannot be read as an Excel workbook" in str(error)


def test_official_tasks(tmp_path: Path) -> None:
    env = Sheet(**official(tmp_path))
    assert env.spec.splits["test"] == range(2) and len(env.spec.splits["train"]) == 400
    assert env.goal(Task("sheet", 0)) == 'In "Sheet1", set pear to 6.'
    assert [env.difficulty(Task("sheet", index)) for index in (0, 1000)] == ["official", "calls 4"]
    opened = call("open_sheet", name="Sheet1")
    change = call("update_cell", position="B2", value=6)
    note = call("update_note", position="A1", content="what is not compared")
    assert run_episode(env, 0, opened, change, note, DONE)[1][-1].reward == 1.0
    assert run_episode(env, 0, opened, change, call("update_cell", position="C3", value=1), DONE)[1][-1].reward == 0.0
    assert run_episode(env, 0, call("open_sheet", name="Answer1"))[1][0].info["invalid"]
    assert run_episode(env, 1000, *env.oracle(Task("sheet", 1000)))[1][-1].reward == 1.0
    other = [call("open_sheet", name="Sheet2"), call("delete_batch_data", dimension="col", index_list=[2])]
    assert run_episode(env, 1, *other, DONE)[1][-1].reward == 1.0
    for index in (2, 1400):
        with pytest.raises(TaskNotFound, match=f"no task {index} here: valid are AgentGym's 0 to 1"):
            env.goal(Task("sheet", index))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("sheet.jsonl", "", "holds no task"),
        ("sheet.jsonl", "{}", r"sheet\.jsonl:1 is no "),
        ("book.xlsx", "PK", r"book\.xlsx cannot be read as an Excel workbook"),
    ],
)
def test_faulty_official_files_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    paths = official(tmp_path)
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        Sheet(**paths)


@pytest.mark.parametrize(
    ("goal", "message"), [("Sort it.", "names no sheet"), ('In "Sheet3", sort.', "no sheet 'Sheet3'")]
)
def test_goals_must_name_a_sheet(tmp_path: Path, goal: str, message: str) -> None:
    paths = official(tmp_path)
    line = {"goal": goal, "subgoals": "", "additional_info": {"answer": "[]"}}
    Path(paths["official"]).write_text(json.dumps(line))
    with pytest.raises(ValueError, match=message):
        Sheet(**paths)


def test_official_files_go_together(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give both"):
        Sheet(official=official(tmp_path)["official"])
    with pytest.raises(ValueError, match="no workbook at"):
        Sheet(official=official(tmp_path)["official"], workbook=str(tmp_path / "none.xlsx"))
