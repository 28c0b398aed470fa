"""``import agentgym_rl`` is quick and has everything."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import agentgym_rl as ag

HEAVY = ("torch", "verl", "vllm", "ray", "transformers", "numpy", "pandas", "gymnasium", "hydra", "rich", "pydantic")


def loaded_by(code: str) -> set[str]:
    """Modules that a fresh process has after some code."""
    say = f"{code}\nimport sys; print(' '.join(sys.modules))"
    process = subprocess.run([sys.executable, "-c", say], capture_output=True, text=True, check=True)
    return set(process.stdout.splitlines()[-1].split())


def test_importing_it_loads_nothing_else():
    modules = loaded_by("import agentgym_rl")
    assert {module for module in modules if module.startswith("agentgym_rl.")} == set()
    assert modules.isdisjoint(HEAVY)


def test_an_environment_loads_nothing_heavy():
    play = "import agentgym_rl as ag; env = ag.make('textcraft'); env.reset('textcraft_12'); env.step('inventory')"
    assert loaded_by(play).isdisjoint(HEAVY)


def test_reading_a_run_and_asking_for_training_load_no_torch():
    code = "import agentgym_rl as ag; ag.load, ag.evaluate, ag.train"
    assert loaded_by(code).isdisjoint(set(HEAVY) - {"pydantic", "rich"})


def test_every_name_is_there():
    assert set(ag.__all__) <= set(dir(ag))
    for name in ag.__all__:
        assert getattr(ag, name).__doc__
    with pytest.raises(AttributeError, match="'agentgym_rl' has no attribute 'evalute'"):
        ag.evalute  # noqa: B018


def test_the_version_is_that_of_the_package():
    assert ag.__version__ == version("agentgym-rl") and "__version__" in dir(ag)
