"""A task in the format of WebArena's files."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

COMMANDS = (
    *("click", "type", "hover", "press", "scroll", "new_tab", "tab_focus", "close_tab", "goto", "go_back"),
    *("go_forward", "stop"),
)
"""WebArena's actions."""
TYPES = ("string_match", "url_match", "program_html")
ANSWERS = ("exact_match", "must_include", "fuzzy_match")
ASK_SHOP = (
    *("shopping_get_latest_order_url", "shopping_get_sku_latest_review_author"),
    "shopping_get_sku_latest_review_rating",
)
"""WebArena's helpers that ask the REST interface of the shop."""
FUNCTIONS = ("reddit_get_post_url", "gitlab_get_project_memeber_role", *ASK_SHOP)
"""WebArena's helpers."""

NO_JUDGE = "its answer has to be compared by a language model: give judge_url and judge_model"
NOT_DOABLE = "N/A"
"""The answer to a task that cannot be done."""


class NotScored(Exception):
    """The task cannot be scored here; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Target:
    """A part of a page that must hold something."""

    url: str
    """An address; ``last`` for the page that is open; or ``func:`` and a call of one of :data:`FUNCTIONS`."""
    locator: str
    """JavaScript whose value is looked at; empty for the HTML of the page; or ``func:`` and a call."""
    exact: str | None
    include: tuple[str, ...]
    """Used where ``exact`` is None."""
    prepare: tuple[str, ...]
    """JavaScript that runs before."""


@dataclass(frozen=True, slots=True)
class Config:
    """A task: what to do, where to start, and what it is scored by."""

    number: int
    sites: tuple[str, ...]
    intent: str
    start_urls: tuple[str, ...]
    """One for each tab."""
    login: str
    """Name of the file with cookies and local storage; empty where there is none."""
    types: tuple[str, ...]
    answers: Mapping[str, Any]
    """By :data:`ANSWERS`."""
    note: str
    """Why the task cannot be done."""
    url: str
    targets: tuple[Target, ...]
    verified: bool = False
    """Whether it is one of :mod:`.verified`, and is scored there; the rules of this class are then empty."""

    @property
    def judged(self) -> bool:
        """Whether a language model has to compare the answer."""
        return "string_match" in self.types and "fuzzy_match" in self.answers


def read(entry: Any, urls: Mapping[str, str], where: str) -> Config:
    """Read an entry.

    Args:
        urls: addresses of sites, which take the place of ``__SHOPPING__`` and the like.

    Raises:
        ValueError: the entry is malformed; the message begins with ``where``.
        NotScored: it calls a helper that is not known here, or needs a site without an address.
    """
    text = _placed(json.dumps(entry), urls)
    for name in re.findall(r'"func:\s*(\w+)', text):
        if name not in FUNCTIONS:
            raise NotScored(f"its score needs {name}, which is none of {', '.join(FUNCTIONS)}")
        if name in ASK_SHOP:
            _placed("__SHOPPING__", urls)
    try:
        return _read(json.loads(text))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        fault = f"it lacks the key {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{where}: it is no task of WebArena's: {fault}") from error


def read_verified(entry: Any, urls: Mapping[str, str], form: str) -> Config:
    """Read an entry of the package ``webarena-verified``.

    Args:
        form: what is said of the form of the answer.

    Raises:
        NotScored: a site of it has no address.
    """
    start = [_placed(url, urls) for url in entry["start_urls"]]
    accounts = sorted(site for site in entry["sites"] if site not in ("map", "wikipedia"))
    return Config(
        entry["task_id"], tuple(entry["sites"]), f"{entry['intent']}\n{form}", tuple(start),
        f"{'.'.join(accounts)}_state.json" if accounts else "", (), {}, "", "", (), verified=True,
    )  # fmt: skip


def _placed(text: str, urls: Mapping[str, str]) -> str:
    """A text with the addresses of the sites; raises NotScored where one is missing."""
    for site, url in urls.items():
        text = text.replace(f"__{site.upper()}__", url.rstrip("/"))
    if placeholder := re.search(r"__([A-Z_]+)__", text):
        raise NotScored(
            f"its site {placeholder[1].lower()} has no address: give sites={placeholder[1].lower()}=http://..."
        )
    return text


def _read(entry: Mapping[str, Any]) -> Config:
    rules = entry["eval"]
    types = tuple(_known(rules["eval_types"], TYPES))
    if not types:
        raise ValueError("eval_types is empty")
    answers = dict(rules["reference_answers"] or {})
    _known(answers, ANSWERS)
    if "string_match" in types and not answers:
        raise ValueError("reference_answers is empty")
    for kind, expected in answers.items():
        one = kind == "exact_match" or (kind == "fuzzy_match" and expected == NOT_DOABLE)
        if not (isinstance(expected, str) if one else _texts(expected)):
            raise ValueError(f"reference_answers > {kind}: {expected!r}")
    for kind, key in (("url_match", "reference_url"), ("program_html", "program_html")):
        if kind in types and not rules[key]:
            raise ValueError(f"{key} is empty, so that every {kind} would succeed")
    if "url_match" in types and rules.get("url_note", "GOLD in PRED") != "GOLD in PRED":
        raise ValueError(f"url_note {rules['url_note']!r} is unknown")
    return Config(
        number=int(entry["task_id"]),
        sites=tuple(map(str, entry["sites"])),
        intent=str(entry["intent"]),
        start_urls=tuple(url.strip() for url in entry["start_url"].split(" |AND| ")),
        login=str(entry["storage_state"] or "").rpartition("/")[2],
        types=types,
        answers=answers,
        note=str(rules.get("string_note") or ""),
        url=str(rules["reference_url"] or ""),
        targets=tuple(map(_target, rules["program_html"] or ())),
    )


def _target(entry: Mapping[str, Any]) -> Target:
    locator, required = entry["locator"].strip(), entry["required_contents"]
    if locator and not locator.startswith(("document.", "[...document.", "func:")):
        raise ValueError(f"locator {locator!r} is none that WebArena knows")
    if entry["url"] != "last" and not entry["url"].startswith(("func:", "http://", "https://")):
        raise ValueError(f"program_html > url {entry['url']!r}")
    exact, include = required.get("exact_match"), required.get("must_include", [])
    if not (isinstance(exact, str) if exact is not None else _texts(include)):
        raise ValueError(f"required_contents {required!r}")
    return Target(
        entry["url"], locator, exact, tuple(include),
        tuple(entry.get("prep_actions", ())),
    )  # fmt: skip


def _texts(value: Any) -> bool:
    """Whether a value is a list of texts that holds any."""
    return isinstance(value, list) and value != [] and all(isinstance(text, str) for text in value)


def _known(entries: Any, known: tuple[str, ...]) -> list[str]:
    for entry in entries:
        if entry not in known:
            raise ValueError(f"{entry!r} is none of {', '.join(known)}")
    return list(entries)
