"""What is shipped: the README of an index page, and the version that files carry."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from agentgym_rl.data import episode_store
from agentgym_rl.data.episode_schema import PACKAGE
from agentgym_rl.data.written_by import package_version
from agentgym_rl.envs import extras
from agentgym_rl.eval.evaluation.rules import FILE, Rules
from agentgym_rl.rollout.settings import RolloutSettings

ROOT = Path(__file__).parents[1]
HOST = "https://host/owner/agentgym-rl"


@pytest.fixture
def index_page(monkeypatch):
    pytest.importorskip("hatchling")
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import index_page

    return index_page


def test_relative_links_and_pictures_lead_to_the_repository(index_page):
    written = "![a](docs/a.png) [b](docs/b.md#c) [d](https://e/f) [g](#h) [[1]](docs/i.md)"
    assert index_page.absolute(written, HOST, "v1").split() == [
        f"![a]({HOST}/raw/v1/docs/a.png)", f"[b]({HOST}/blob/v1/docs/b.md#c)", "[d](https://e/f)", "[g](#h)",
        f"[[1]]({HOST}/blob/v1/docs/i.md)",
    ]  # fmt: skip


@pytest.mark.parametrize("address", [HOST, f"{HOST}.git", f"{HOST}/"])
def test_a_hosted_build_has_addresses_and_no_relative_link(index_page, monkeypatch, address):
    monkeypatch.setenv("REPOSITORY", address)
    metadata = {"version": "1.2"}
    index_page.CustomMetadataHook(str(ROOT), {}).update(metadata)
    assert index_page.LINK.search(metadata["readme"]["text"]) is None
    assert f"({HOST}/raw/v1.2/docs/images/" in metadata["readme"]["text"]
    assert set(metadata["urls"]) == {"Repository", "Documentation", "Changelog", "Issues"}
    assert all(url.startswith(HOST) for url in metadata["urls"].values())


def test_a_build_from_a_clone_names_no_address(index_page, monkeypatch):
    monkeypatch.delenv("REPOSITORY", raising=False)
    metadata = {"version": "1.2"}
    index_page.CustomMetadataHook(str(ROOT), {}).update(metadata)
    assert metadata["urls"] == {} and metadata["readme"]["text"] == (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def status() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text[text.index("**Status:**") :].partition("\n\n")[0].replace("\n", " ")


@pytest.fixture
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_status_line_has_the_versions_that_are_pinned(status, project):
    assert f"version {project['version']}." in status
    engine = str(project["optional-dependencies"]["cpu"])
    pins = dict(re.findall(r"(verl|torch|vllm|transformers|ray)(?:-cpu)?==(\d+\.\d+)", engine))
    named = re.findall(r"(verl|torch|vLLM|transformers|Ray) (\d+\.\d+)", status)
    assert {name.lower(): number for name, number in named} == pins


def test_pythons_are_named_that_are_tested_and_the_first_is_required(status, project):
    tested = re.findall(r"Python :: (3\.\d+)", str(project["classifiers"]))
    assert re.findall(r"\b3\.\d+\b", status) == tested
    assert project["requires-python"] == f">={tested[0]}"


def test_the_bound_of_the_engine_stands_in_its_extras_alone(project):
    bound = "python_version < '{}.{}'".format(*extras.ENGINE_ENDS)
    needs = {name: needed for name, needed in project["optional-dependencies"].items() if name in ("cpu", "gpu")}
    others = [extra for needed in needs.values() for extra in needed if not extra.endswith(bound)]
    assert sorted(others) == ["agentgym-rl[smollm2,train]", "agentgym-rl[train]"]
    assert str(project).count("python_version") == str(needs).count("python_version")


def test_files_carry_the_version(tmp_path):
    assert package_version() == version("agentgym-rl")
    Rules(settings=RolloutSettings()).keep(tmp_path, {"step": 1})
    assert json.loads((tmp_path / FILE).read_text())["agentgym-rl"] == package_version()


def test_episode_files_carry_the_version(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    episode_store.write_texts(tmp_path / "none.parquet", [])
    assert parquet.read_metadata(tmp_path / "none.parquet").metadata[PACKAGE] == package_version().encode()


def test_pages_carry_the_version():
    pytest.importorskip("jinja2")
    from agentgym_rl.eval.viewer import assets

    assert f'content="agentgym-rl {package_version()}"' in assets.page("files")


def test_a_python_without_the_engine_is_told_which_has_it(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 14, 0, "final", 0))
    said = str(extras.missing("training", "verl", "cpu"))
    assert said == "training needs verl, which has no release for Python 3.14; use Python 3.11 or 3.12"
    assert "pip install 'agentgym-rl[eval]'" in str(extras.missing("a table", "scipy", "eval"))
