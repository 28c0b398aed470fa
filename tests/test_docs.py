"""What the documentation says is there: links, commands, keys, files."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import typer
from documented import DOCS, FENCE, OURS, PAGES, ROOT, SHOWN, prose
from typer.testing import CliRunner

from agentgym_rl.cli import app

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def slug(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower())


@cache
def anchors(path: Path) -> set[str]:
    return {slug(found) for found in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)}


GROUP: typer.core.TyperGroup = typer.main.get_command(app)  # type: ignore[assignment]


def test_there_are_commands_to_check():
    assert len(OURS) > 100 and {"train", "compare", "serve", "collect"} <= {words[1] for _, words in OURS}


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_relative_links_lead_somewhere(path):
    lost = []
    for target in LINK.findall(prose(path)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        place = (path.parent / file).resolve() if file else path
        on_the_site = path.is_relative_to(DOCS) <= place.is_relative_to(DOCS)
        if not (on_the_site and place.exists()) or (anchor and place.suffix == ".md" and anchor not in anchors(place)):
            lost.append(target)
    assert lost == []


@pytest.mark.parametrize("path", sorted({path for path, _ in OURS}), ids=name)
def test_commands_and_their_options_exist(path):
    wrong = []
    for where, words in OURS:
        if where != path or words[1].startswith("-"):
            continue
        if words[1] not in GROUP.commands:
            wrong.append(f"no command: {' '.join(words)}")
            continue
        known = {
            option
            for parameter in GROUP.commands[words[1]].params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        used = [word.split("=")[0] for word in words[2:] if re.match(r"--?[a-z]", word)]
        wrong += [f"no option {option}: {' '.join(words)}" for option in used if option not in known]
    assert wrong == []


def test_every_command_is_listed():
    listed = {words[1] for path, words in OURS if path == DOCS / "commands.md" and not words[1].startswith("-")}
    assert listed == set(GROUP.commands)
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0


def test_programs_and_targets_exist():
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lost = []
    for path, words in SHOWN:
        if words[0] == "make":
            lost += [f"{name(path)}: make {word}" for word in words[1:] if "=" not in word and word not in targets]
        elif words[0] == "python" and words[1].startswith(("benchmarks/", "examples/", "scripts/")):
            lost += [f"{name(path)}: {words[1]}"] if not (ROOT / words[1]).is_file() else []
    assert lost == []


def test_the_docs_are_not_too_long():
    """As ``find docs -name '*.md' | xargs cat | wc -w`` counts."""
    assert sum(len(path.read_text().split()) for path in DOCS.rglob("*.md")) < 45_000
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_every_page_is_in_the_navigation():
    yaml = pytest.importorskip("yaml")
    tree = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]

    def leaves(part: object) -> list[str]:
        if isinstance(part, str):
            return [part]
        children = part.values() if isinstance(part, dict) else part
        return [leaf for child in children for leaf in leaves(child)]

    listed = leaves(tree)
    assert len(listed) == len(set(listed))
    assert set(listed) == {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}


def test_the_overview_leads_to_every_page():
    linked = {(DOCS / target).resolve() for target in LINK.findall(prose(DOCS / "index.md")) if target.endswith(".md")}
    assert linked == {path.resolve() for path in DOCS.rglob("*.md")} - {DOCS / "index.md"}


def test_every_environment_and_algorithm_has_a_page():
    from agentgym_rl.algorithms import algorithms

    points = re.search(r'entry-points\."agentgym_rl.envs"\]\n(.*?)\n\n', (ROOT / "pyproject.toml").read_text(), re.S)
    envs = re.findall(r"^(\w+) =", points[1], re.MULTILINE)
    assert {page.stem for page in DOCS.glob("envs/*.md")} == set(envs) - {"harness", "mcp", "openenv"}
    assert {"mcp", "openenv"} <= {page.stem for page in DOCS.glob("*.md")}
    ours = {name for name, kind in algorithms().items() if kind.__module__.startswith("agentgym_rl.")}
    assert {page.stem for page in DOCS.glob("algorithms/*.md")} == ours


def test_the_recipe_to_write_composes(tmp_path, monkeypatch):
    pytest.importorskip("hydra")
    import shutil

    from agentgym_rl.engine.recipe import compose as recipes

    blocks = FENCE.findall((DOCS / "recipes.md").read_text())
    written = next(body for language, body in blocks if language == "yaml" and "@package" in body)
    tree = tmp_path / "recipes"
    shutil.copytree(recipes.recipes_dir(), tree)
    tree.joinpath("experiment", "shallow.yaml").write_text(written)
    monkeypatch.setattr(recipes, "recipes_dir", lambda: tree)
    assert recipes.load(["experiment=shallow"]).envs["textcraft"].demonstrations == 200


def test_recipe_groups_are_listed():
    """The table of groups has each group with all its choices: files, and classes that are installed."""
    pytest.importorskip("hydra")
    from agentgym_rl.engine.recipe.compose import options

    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| .+\|$", (DOCS / "recipes.md").read_text(), re.MULTILINE)
    listed = {group: set(re.findall(r"`([\w.-]+)`", choices)) for group, choices in rows}
    folders = {folder.name for folder in (ROOT / "recipes").iterdir() if folder.is_dir()}
    groups = (folders | {"algorithm", "mixture"}) - {"tuned"}
    assert {group: listed[group] for group in groups} == {group: set(options(group)) for group in groups}


@pytest.mark.parametrize(
    ("group", "page"),
    [("algorithm", "README.md"), ("curriculum", "docs/curriculum.md"), ("mixture", "docs/mixture.md")],
)
def test_a_table_explains_each_choice_of_a_group(group, page):
    pytest.importorskip("hydra")
    from agentgym_rl.engine.recipe.compose import options

    first_cells = re.findall(r"^\| (.+?) \|", (ROOT / page).read_text(), re.MULTILINE)
    assert set(options(group)) <= {word for cell in first_cells for word in re.findall(r"`([\w.-]+)`", cell)}


def test_keys_of_tables_exist():
    """Keys in backticks that begin with a section of a run's configuration."""
    pytest.importorskip("omegaconf")
    from dataclasses import fields, is_dataclass
    from typing import get_type_hints

    from agentgym_rl.algorithms import algorithms
    from agentgym_rl.algorithms.curriculum.turn_limit import curricula
    from agentgym_rl.algorithms.losses import losses
    from agentgym_rl.algorithms.mixture import mixtures
    from agentgym_rl.engine.recipe.config import (
        Config,
        EnvConfig,
        PanelConfig,
        PretrainedModelConfig,
        TinyModelConfig,
    )

    def known(kind: type, prefix: str) -> set[str]:
        hints = get_type_hints(kind)
        found = {f"{prefix}{field.name}" for field in fields(kind)}
        for field in fields(kind):
            if is_dataclass(hints[field.name]):
                found |= known(hints[field.name], f"{prefix}{field.name}.")
        return found

    keys = known(Config, "") | known(EnvConfig, "envs.<name>.") | known(PanelConfig, "envs.<name>.panels.<label>.")
    for section, kinds in (("algorithm", algorithms()), ("curriculum", curricula()), ("mixture", mixtures())):
        keys |= {key for kind in kinds.values() for key in known(kind.Config, f"{section}.")}
    keys |= {key for kind in losses().values() for key in known(kind.Config, "algorithm.loss.")}
    keys |= known(TinyModelConfig, "model.") | known(PretrainedModelConfig, "model.")
    open_ended = re.compile(
        r"verl\.|envs\.(?!<name>)\w+|envs\.<name>\.(host|options|curriculum|panels)\.|algorithm\.success_threshold\."
    )
    sections = "|".join(sorted({key.split(".")[0] for key in keys if "." in key} | {"envs"}))
    lost = []
    for path in PAGES:
        for key in re.findall(rf"`((?:{sections})\.[\w.<>]+\w)(?:=[^`]*)?`", prose(path)):
            if path.name not in ("from-agentgym-rl.md", "verl.md") and key not in keys and not open_ended.match(key):
                lost.append(f"{name(path)}: {key}")
    assert lost == []


def said(folder: Path) -> str:
    """All the text a package's code holds in strings, with what is filled in cut out."""
    texts = []
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\0".join(texts)


@pytest.mark.slow
def test_messages_are_those_of_the_code():
    """What a message of the troubleshooting page says in words of its own, without examples of names and numbers."""
    texts = said(ROOT / "agentgym_rl")
    ours, _, _ = (DOCS / "troubleshooting.md").read_text().partition("## From other programs")
    messages = [
        found for row in re.findall(r"^\| (`.+?`) \|", ours, re.MULTILINE) for found in re.findall(r"`(.+?)`", row)
    ]
    assert len(messages) > 25
    gap = r"\.\.\.|'[^']*'|\d+|[()]|<[^>]+>|\bN\b"
    lost = []
    for message in messages:
        pieces = [piece.strip(" :;,") for piece in re.split(gap, message)]
        lost += [f"{message}: {piece}" for piece in pieces if len(piece) > 5 and piece not in texts]
    assert lost == []


def test_formulas_and_docstrings_become_html():
    pytest.importorskip("markdown")
    pytest.importorskip("latex2mathml")
    import sys

    from markdown import markdown

    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        html = markdown(
            "costs $5, `$x$`, $\\theta_1$ and\n\n$$a\n- b$$\n\n"
            ":class:`~a.b.C`, :mod:`d.e`, :data:`F`, :mod:`a title <.g>`, :math:`x`\n\n.. math:: y\n   = z\n\n"
            "==  =====\nab  x y\n    z\ncd  \\|q\\|\n==  =====\n",
            extensions=["docs_markdown", "tables"],
        )
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    assert "costs $5," in html and "<code>$x$</code>" in html
    assert html.count("<math") == 4 and html.count('display="block"') == 2
    assert "<code>C</code>, <code>d.e</code>, <code>F</code>, a title, <math" in html
    assert re.findall("<td>(.*?)</td>", html) == ["ab", "x y z", "cd", "|q|"]
