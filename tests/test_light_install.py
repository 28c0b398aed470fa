"""The extra `light` has all that playing, evaluating and README's "From Python" need."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])
sys.meta_path.insert(0, Blocker())
"""
COMMAND = """
from agentgym_rl.cli import main
sys.argv = ["agentgym-rl", *words]
main()
"""
PYTHON = """
import agentgym_rl as ag
from agentgym_rl.rollout.policies.api import ChatModel
ChatModel("openai:m@http://127.0.0.1:9/v1", temperature=0)
found = ag.evaluate("oracle", "textcraft:test:2")
found.table, found.episodes, found._repr_html_()
"""


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower() for requirement in requirements}


def brought() -> set[str]:
    """The distributions that come with the extra, as far as they are installed, and all that they need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras, found = project["optional-dependencies"], {"agentgym-rl"}
    wanted = names(project["dependencies"])
    for requirement in extras["light"]:
        inner = re.match(r"agentgym-rl\[(.*)\]", requirement)
        wanted |= names([each for extra in inner[1].split(",") for each in extras[extra]] if inner else [requirement])
    while new := wanted - found:
        found |= new
        for name in new:
            try:
                wanted |= names([need for need in distribution(name).requires or () if "extra ==" not in need])
            except PackageNotFoundError:
                continue  # needed by other machines only
    return found


@pytest.fixture(scope="module")
def prelude() -> str:
    allowed = {re.sub("[_.]", "-", name) for name in brought()}
    blocked = {
        module
        for module, homes in packages_distributions().items()
        if allowed.isdisjoint(re.sub("[_.]", "-", home.lower()) for home in homes)
    }
    assert "pytest" in blocked and "scipy" not in blocked
    return f"blocked = {blocked!r}{BLOCKED}"


@pytest.fixture
def run(prelude, tmp_path):
    """Runs code in a process that has nothing else; gives its error output, which is empty where all went well."""

    def run(code: str) -> str:
        told = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", prelude + code], cwd=tmp_path, env=told, capture_output=True, text=True
        )
        return "" if done.returncode == 0 else done.stderr or f"exit status {done.returncode}"

    return run


@pytest.mark.slow
def test_commands_need_nothing_else(run, tmp_path):
    for words in ("eval panel=textcraft:test:2 policy=oracle out=result", "view result --html page"):
        assert run(f"{COMMAND.replace('words', f'{words.split()}')}") == ""
    assert (tmp_path / "page/index.html").is_file()


@pytest.mark.slow
def test_learning_in_words_needs_nothing_else(run, tmp_path):
    """All is opened, and the first request finds no server."""
    nobody = "openai:m@http://127.0.0.1:9/v1"
    words = f"learn textcraft:test:2 policy={nobody} writer={nobody} out=book"
    assert "127.0.0.1:9/v1 cannot be reached" in run(COMMAND.replace("words", f"{words.split()}"))
    assert (tmp_path / "book/journal/step001.jsonl").is_file()


@pytest.mark.slow
def test_python_needs_nothing_else(run):
    assert run(PYTHON) == ""


@pytest.mark.slow
def test_what_is_missing_is_said_before_anything_is_played(run, tmp_path):
    without = "blocked |= {'scipy'}\n" + COMMAND.replace("words", "'eval panel=textcraft:test:2 policy=oracle'.split()")
    assert "an interval needs the package 'scipy'; install it with: pip install" in run(without)
    assert not list(tmp_path.rglob("*"))
