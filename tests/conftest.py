"""Fixtures every test may use."""

from __future__ import annotations

import asyncio
import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hooks import (  # noqa: F401
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_runtest_setup,
    pytest_terminal_summary,
    pytest_xdist_auto_num_workers,
)
from hypothesis import HealthCheck, settings
from sweep import swept

# The same examples each time: benchmarks/fuzz.py is for new ones. Shared machines are slow at odd moments; a test's own
# timeout is the limit.
settings.register_profile(
    "house", max_examples=swept(200), derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")

# Tests need no GPU; verl reads this when it is imported.
os.environ.setdefault("VERL_PLATFORM", "cpu")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "envs"))

import toy  # noqa: E402
from wandb_server import wandb_server  # noqa: E402, F401

from agentgym_rl.envs import registry  # noqa: E402
from agentgym_rl.envs.pool import Pool  # noqa: E402


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[Pool]:
    """The pools in which a place was searched for, once a search."""
    made, lease = [], Pool.lease

    async def counted(pool: Pool, *arguments: Any) -> Any:
        made.append(pool)
        return await lease(pool, *arguments)

    monkeypatch.setattr(Pool, "lease", counted)
    return made


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the toy environments, for this process and its children, and give the folder of their metadata."""
    folder = tmp_path / "site"
    info = folder / "toy_worlds-1.0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: toy-worlds\nVersion: 1.0\n")
    points = "\n".join(f"{world.name} = toy:{world.__name__}" for world in toy.WORLDS)
    info.joinpath("entry_points.txt").write_text(
        f"[agentgym_rl.envs]\n{points}\nneedy = needy_world:Needy\nbroken = toy:Nothing\n"
    )
    folder.joinpath("needy_world.py").write_text("import a_package_nobody_has\n")
    monkeypatch.syspath_prepend(folder)
    inherited = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), str(HERE / "envs"), inherited])))
    registry.read_points.cache_clear()
    yield folder
    forget_choices()


def forget_choices() -> None:
    """Look again for what a recipe can choose: a test has taken some of it away."""
    registry.read_points.cache_clear()
    if (installed := sys.modules.get("agentgym_rl.algorithms.installed")) is not None:
        installed.read.cache_clear()


@pytest.fixture
def files_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder of classes that are adopted from files; they are forgotten afterwards."""
    from agentgym_rl.envs import own_files

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(own_files.FILES, "")
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    forget_choices()


@pytest.fixture
def other() -> Callable[[str], Any]:
    """Imports a package of another project; a test without its package is skipped, but not by `make doors`."""
    return import_module if os.environ.get("AGENTGYM_RL_DOORS") else pytest.importorskip


@pytest.fixture(scope="session")
def chromium() -> Any:
    """The package's own browser. Whatever needs one is skipped without it, with the line that installs it."""
    needed = "needs playwright: pip install 'agentgym-rl[dev]'"
    module = pytest.importorskip("agentgym_rl.envs.browser.chromium", reason=needed)
    chromium = module.CHROMIUM
    try:
        context = chromium.call_blocking(chromium.lease())
    except module.BrowserMissing as error:
        pytest.skip(str(error))
    chromium.call_blocking(chromium.give_back(context))
    return chromium


@pytest.fixture(scope="session")
def playwright_browser(chromium: Any) -> Iterator[tuple[Any, asyncio.AbstractEventLoop]]:
    """A browser for pages, one for all tests, and playwright's loop, which :func:`browser` lets this thread run."""
    from playwright.sync_api import sync_playwright

    from agentgym_rl.envs.browser.chromium import program

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=["--no-sandbox"])
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture(scope="module")
def browser(playwright_browser: tuple[Any, asyncio.AbstractEventLoop]) -> Iterator[Any]:
    """Headless Chromium. Make data with ``asyncio.run`` before: this thread then runs playwright's own loop."""
    browser, loop = playwright_browser
    asyncio._set_running_loop(loop)
    yield browser
    for context in browser.contexts:
        context.close()
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def smoke_run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a call trained on the real engine: ``experiment=smoke`` with GRPO, in ``runs/`` of a folder of its own."""
    import agentgym_rl as ag

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place := tmp_path_factory.mktemp("smoke"))
        found = ag.train(experiment="smoke", algorithm="grpo", logger={"wandb": "disabled"}, quiet=True)
    return replace(found, folder=place / found.folder)


@pytest.fixture
def example_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The packages under ``examples/``, as if installed, for this process and its children."""
    folders = [tmp_path]
    for pyproject in (HERE.parent / "examples").glob("*/pyproject.toml"):
        project = tomllib.loads(pyproject.read_text())["project"]
        info = tmp_path / f"{project['name'].replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
        lines = []
        for group, points in project.get("entry-points", {}).items():
            lines += [f"[{group}]", *(f"{name} = {place}" for name, place in points.items())]
        info.joinpath("entry_points.txt").write_text("\n".join([*lines, ""]))
        folders.append(pyproject.parent)
    for folder in folders:
        monkeypatch.syspath_prepend(folder)
    inherited = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [*map(str, folders), inherited])))
    forget_choices()
    yield
    forget_choices()
