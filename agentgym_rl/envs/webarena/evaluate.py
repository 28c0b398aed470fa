"""WebArena's rules for a score (Zhou et al. 2023, arXiv:2307.13854, section 3.2; its ``evaluators.py``).

A task is solved when all of its evaluators agree. Where the original splits an answer into words with NLTK, a pattern
does it here.
"""

import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from agentgym_rl.envs.tables import read_utf8
from agentgym_rl.envs.webarena.config import NOT_DOABLE, Config, Target
from agentgym_rl.envs.webarena.shop import Shop

_WORD = re.compile(
    r"(?:[^\s;@#$%&?!()\[\]{}<>\"'`*,:.\-\u2013\u2014\u2018\u2019\u201c\u201d]"
    r"|(?<!-)-(?!-)|[,:](?=\d)|\.(?=[^\s\])}>\"']))+|\S"
)
"""As NLTK's tokenizer splits: ``3rd``, ``top-3``, ``3/5`` and ``1,005`` are words, ``5%`` and a last ``5.`` are two."""
_CALL = re.compile(r"func:\s*(\w+)\((?:__page__, *)?(?:'([^']*)')?\)")
_ROLE = read_utf8(Path(__file__).with_name("role.js"))
"""The role of a member, on GitLab's page of members."""


class Page(Protocol):
    """The page that the agent leaves behind."""

    @property
    def url(self) -> str: ...
    async def goto(self, url: str) -> None: ...
    async def evaluate(self, script: str, argument: Any = None) -> Any: ...


class Judge(Protocol):
    """Compares answers in words."""

    async def agrees(self, question: str, reference: str, answer: str) -> bool: ...
    async def same_reason(self, task: str, reason: str, reported: str) -> bool: ...


async def solved(config: Config, answer: str, page: Page, judge: Judge | None, shop: Shop | None) -> bool:
    """Whether an episode has solved its task.

    Args:
        answer: the argument of ``stop``.
        judge: needed where the config is ``judged``.
        shop: needed where the config calls one of :data:`.config.ASK_SHOP`.

    Raises:
        EnvUnavailable, EnvTimeout, ProtocolError: the page, a site or the judge has failed or refuses a request.
    """
    for kind in config.types:
        if kind == "string_match":
            right = await answer_matches(config, answer, judge)
        elif kind == "url_match":
            right = url_matches(config.url, page.url)
        else:
            right = await _contents_match(config.targets, page, shop)
        if not right:
            return False
    return True


def clean(text: str) -> str:
    """A text as it is compared: in small letters, without quotation marks around it."""
    text = text.strip()
    if text[:1] == text[-1:] and text[:1] in ("'", '"'):
        text = text[1:-1]
    return text.lower()


def includes(expected: str, text: str, words: bool = False) -> bool:
    """Whether a text has another one in it; with ``words`` a single character must be a word of it."""
    expected, text = clean(expected), clean(text)
    return expected in (_WORD.findall(text) if words and len(expected) == 1 else text)


async def answer_matches(config: Config, answer: str, judge: Judge | None) -> bool:
    """Whether the answer is right by all of ``reference_answers``."""
    answer = clean(answer)
    for kind, expected in config.answers.items():
        if kind == "exact_match":
            right = clean(answer) == clean(expected)
        elif kind == "must_include":
            right = all(includes(phrase, answer, words=len(expected) == 1) for phrase in expected)
        else:
            right = await _judged(config, expected, answer, judge)
        if not right:
            return False
    return True


async def _judged(config: Config, expected: str | Sequence[str], answer: str, judge: Judge | None) -> bool:
    if expected == NOT_DOABLE and answer == clean(NOT_DOABLE):
        return True
    assert judge is not None, "tasks that need a judge are refused without one"
    if expected == NOT_DOABLE:
        return await judge.same_reason(config.intent, config.note, answer)
    for reference in expected:
        if not await judge.agrees(config.intent, reference, answer):
            return False
    return True


def url_matches(expected: str, url: str) -> bool:
    """Whether a URL contains one of the expected ones, which ``|OR|`` separates, with the values of their queries."""
    base, query = _parts(url)
    alternatives = [_parts(alternative) for alternative in expected.split(" |OR| ")]
    values: dict[str, set[str]] = {}
    for _, expected_query in alternatives:
        for key, some in expected_query.items():
            values.setdefault(key, set()).update(some)
    return any(expected_base in base for expected_base, _ in alternatives) and all(
        some.intersection(query.get(key, ())) for key, some in values.items()
    )


def _parts(url: str) -> tuple[str, dict[str, list[str]]]:
    parts = urlsplit(url.rstrip("/"))
    return parts.netloc + parts.path, parse_qs(parts.query)


async def _contents_match(targets: Sequence[Target], page: Page, shop: Shop | None) -> bool:
    for target in targets:
        call = _CALL.fullmatch(target.url)
        url = await _called(call, page, shop) if call else target.url
        if url != "last":
            if not url.startswith(("http://", "https://")):
                return False  # the shop has no order, or the agent has left the sites
            await page.goto(url)
        text = unescape(await _content(target, page, shop))
        if target.exact is not None:
            right = clean(text) == clean(target.exact)
        else:
            right = all(
                any(includes(alternative, text) for alternative in needed.split(" |OR| ")) for needed in target.include
            )
        if not right:
            return False
    return True


async def _called(call: re.Match[str], page: Page, shop: Shop | None) -> str:
    """What one of WebArena's helpers gives."""
    name, argument = call[1], (call[2] or "").replace("__last_url__", page.url)
    if name == "reddit_get_post_url":
        return post_url(argument)
    if name == "gitlab_get_project_memeber_role":
        return str(await page.evaluate(_ROLE, argument))
    assert shop is not None, "tasks that ask the shop are left out without its address"
    return await shop.value(name, argument)


def post_url(url: str) -> str:
    """The address of the post that an address on the forum belongs to; any other address as it is."""
    parts = urlsplit(url)
    names = parts.path.split("/")
    if len(names) < 4 or names[1] != "f":
        return url
    return f"{parts.scheme}://{parts.netloc}/f/{names[2]}/{names[3]}/"


async def _content(target: Target, page: Page, shop: Shop | None) -> str:
    if not target.locator:
        return str(await page.evaluate("document.documentElement.outerHTML"))
    if call := _CALL.fullmatch(target.locator):
        return await _called(call, page, shop)
    for script in target.prepare:
        await page.evaluate(_harmless(script))
    return str(await page.evaluate(_harmless(target.locator)))


def _harmless(script: str) -> str:
    """JavaScript that gives an empty text where it fails."""
    return f"() => {{ try {{ return {script} }} catch {{ return '' }} }}"
