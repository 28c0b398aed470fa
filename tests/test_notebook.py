"""The notebook in ``examples/`` runs from top to bottom."""

import ast
import asyncio
import inspect
import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples/first_steps.ipynb"
CELLS = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


def test_it_holds_no_output():
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in CELLS)


def test_it_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    pytest.importorskip("scipy")
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "__main__"}
    last = []

    async def kernel():
        """Jupyter runs cells while an event loop runs; the value of a cell is that of its last expression."""
        for cell in CELLS:
            tree = ast.parse("".join(cell["source"]))
            end = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, NOTEBOOK.name, "exec"), names)
            last.append(end and eval(compile(ast.Expression(end.value), NOTEBOOK.name, "eval"), names))
            assert not inspect.isawaitable(last[-1])

    asyncio.run(kernel())
    assert "textcraft" in last[0] and last[2] == (1.0, True)
    assert names["found"]["oracle"].success.value > names["found"]["function"].success.value
    assert "oracle on panel" in capsys.readouterr().out
    assert {"env", "success", "success_low"} <= {*last[4].columns} and len(last[5]) == 5
