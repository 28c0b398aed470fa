"""The built-in tasks: ``templates.toml``, filled from the contents of the sites.

The templates take turns. Of each template's rows, in the order of their fingerprints, the first belong to ``test``, the
next to ``val`` and then to ``train``; so no task occurs in two splits.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from agentgym_rl.envs.splits import Splits, fingerprint
from agentgym_rl.envs.tables import load
from agentgym_rl.envs.webarena.config import Config, read
from agentgym_rl.envs.webarena.sites.seed import USER, frozen
from agentgym_rl.envs.webarena.sites.visit import SITES

SPLITS = Splits(
    "webarena", {"test": range(50), "train": range(50, 422), "val": range(422, 472), "judged": range(472, 512)}
)
"""The indices of ``train`` and ``test`` are those that AgentGym uses, for tasks of its own. ``judged`` has the tasks
whose answers a language model compares."""

_ORDER = ("test", "val", "train")
"""In which the splits take a template's rows."""
_URLS = {key: site.url for key, site in SITES.items()}
_MEMBERS = ("shopping", "reddit", "gitlab")
"""The sites on which one is logged in."""


@dataclass(frozen=True)
class _Template:
    name: str
    sites: tuple[str, ...]
    rows: str
    """SQL; its columns are the fields."""
    intent: str
    plan: tuple[tuple[str, ...], ...]
    """Actions that solve it; elements are given by role and name."""
    login: dict[str, str] = field(default_factory=dict)
    """Users that are not the usual one, by site."""
    exact_match: str | None = None
    must_include: tuple[str, ...] = ()
    fuzzy_match: Any = None
    note: str = ""
    url: str = ""
    html: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class _Templates:
    templates: tuple[_Template, ...]
    judged: tuple[_Template, ...]


_TEMPLATES = load(Path(__file__).with_name("templates.toml"), _Templates)


@dataclass(frozen=True, slots=True)
class Problem:
    """A built-in task."""

    config: Config
    label: str
    """Site and template, such as ``shopping: price``."""
    users: Mapping[str, str]
    """Who is logged in, by site."""
    plan: tuple[tuple[str, ...], ...]
    """Actions that solve it; elements are given by role and name."""


@cache
def problem(index: int) -> Problem:
    """The task of an index. Raises TaskNotFound: there is none."""
    template, row = _find(index)
    users = {site: USER for site in _MEMBERS} | template.login
    label = f"{'+'.join(template.sites)}: {template.name}"
    plan = _filled([[_placed(word) for word in step] for step in template.plan], row)
    return Problem(read(entry(index), _URLS, f"task {index}"), label, users, tuple(map(tuple, plan)))


def entry(index: int) -> dict[str, Any]:
    """The task as an entry of WebArena's files. Raises TaskNotFound: there is none."""
    template, row = _find(index)
    references = {
        "exact_match": template.exact_match,
        "must_include": template.must_include,
        "fuzzy_match": template.fuzzy_match,
    }
    answers = {kind: expected for kind, expected in references.items() if expected}
    html = [
        {"url": target["url"], "locator": target["locator"],
         "required_contents": {key: target[key] for key in ("exact_match", "must_include") if key in target}}
        for target in template.html
    ]  # fmt: skip
    used = {"string_match": answers, "url_match": template.url, "program_html": html}
    rules = {
        "eval_types": [kind for kind, content in used.items() if content],
        "reference_answers": answers or None,
        "reference_url": template.url,
        "program_html": html,
        "string_note": template.note,
    }
    return {
        "sites": list(template.sites),
        "task_id": index,
        "require_login": template.sites != ("wikipedia",),
        "storage_state": None,
        "start_url": f"__{template.sites[0].upper()}__",
        "intent_template": template.intent.replace("{", "{{").replace("}", "}}"),
        "instantiation_dict": row,
        "intent": template.intent.format(**row),
        "require_reset": False,
        "eval": _filled(rules, row),
    }


def _find(index: int) -> tuple[_Template, Mapping[str, Any]]:
    """The template of a task, and the values of its fields."""
    split, place = SPLITS.locate(index)
    judged = split == "judged"
    templates = _TEMPLATES.judged if judged else _TEMPLATES.templates
    turn, number = divmod(place, len(templates))
    for earlier in () if judged else _ORDER[: _ORDER.index(split)]:
        turn += -(-len(SPLITS[earlier]) // len(templates))
    return templates[number], _rows(judged, number)[turn]


@cache
def _contents() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", check_same_thread=False)
    db.deserialize(frozen())
    return db


@cache
def _rows(judged: bool, number: int) -> list[dict[str, Any]]:
    """The rows of a template, in the order in which the splits take them."""
    template = (_TEMPLATES.judged if judged else _TEMPLATES.templates)[number]
    cursor = _contents().execute(template.rows)
    names = [column[0] for column in cursor.description]
    rows = [dict(zip(names, row, strict=True)) for row in cursor]
    return sorted(rows, key=lambda row: fingerprint(template.intent.format(**row), 16))


def _filled(value: Any, row: Mapping[str, Any]) -> Any:
    """A tree of JSON whose texts have their fields filled."""
    if isinstance(value, str):
        return value.format(**row)
    if isinstance(value, dict):
        return {key: _filled(part, row) for key, part in value.items()}
    return [_filled(part, row) for part in value] if isinstance(value, list | tuple) else value


def _placed(word: str) -> str:
    """A word of a plan with the addresses of the sites."""
    for key, url in _URLS.items():
        word = word.replace(f"__{key.upper()}__", url)
    return word
