"""The notebook in ``examples/`` runs from top to bottom, and so does the Python of the pages."""

import ast
import asyncio
import inspect
import json
import shutil
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples/first_steps.ipynb"
CELLS = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


ONE_GPU = [
    cell for cell in json.loads(NOTEBOOK.with_name("one_gpu.ipynb").read_text())["cells"] if cell["cell_type"] == "code"
]


def test_they_hold_no_output():
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in [*CELLS, *ONE_GPU])


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_one_that_trains_does_so_without_a_gpu(smoke_run, tmp_path, monkeypatch):
    """It finds the run that is trained, which ``train`` would refuse if the notebook's recipe were another one."""
    torch = pytest.importorskip("torch")
    shutil.copytree(smoke_run.folder, tmp_path / "runs" / "notebook")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    names: dict = {"__name__": "__main__"}
    for cell in ONE_GPU:
        exec("".join(cell["source"]), names)
    assert "name: smoke-grpo-seed0" in names["shown"] and names["summary"]["algorithm"] == "grpo"


@pytest.mark.parametrize(("gib", "size"), [(15.7, "0.5b"), (23.6, "1.5b"), (47.4, "3b"), (79.1, "3b")])
def test_the_model_follows_from_the_memory(monkeypatch, gib, size):
    pytest.importorskip("hydra")
    from agentgym_rl.engine.recipe import gpus
    from agentgym_rl.engine.recipe.compose import load

    monkeypatch.setattr(gpus, "smallest", lambda: gib)
    names = {"gpu": True, "sys": sys}
    exec("".join(ONE_GPU[1]["source"]), names)
    config = load(names["recipe"])
    assert config.model.path.lower() == f"qwen/qwen2.5-{size}-instruct" and config.engine.workers == 1


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


def blocks(page: str) -> list[str]:
    """The Python of a page's code blocks."""
    text = (NOTEBOOK.parents[1] / "docs" / page).read_text()
    return [part.partition("```")[0] for part in text.split("```python\n")[1:]]


def test_the_page_on_python_is_pasted(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for code in blocks("python.md")[:4]:  # the others need a run
        exec(code, names)
    assert names["found"].success.value == 1 and names["info"]["invalid"] is False


def test_the_page_on_other_projects_is_pasted(tmp_path, monkeypatch):
    pytest.importorskip("gymnasium")
    from agentgym_rl.envs import Task

    use, own, *_ = blocks("doors.md")
    names: dict = {}
    exec(use, names)
    assert names["observation"] == "Inventory: empty"
    exec(own, names)
    env = names["EchoEnv"]()
    step = asyncio.run(solved(env, Task("echo", 3)))
    assert (step.reward, step.terminated) == (1.0, True)


async def solved(env, task):
    word = (await env.reset(task)).text
    return await env.step(word)
