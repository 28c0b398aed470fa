"""MiniWoB++ as an agent meets it. All tests share one browser; without one they are skipped.

The checker (``agentgym-rl check miniwob``) compares processes as well, each of which starts a browser; here a frozen
transcript stands for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

pytest.importorskip("playwright", reason="the extra miniwob is not installed")

from agentgym_rl.envs import Task
from agentgym_rl.envs.browser.chromium import CHROMIUM
from agentgym_rl.envs.checks import CHECKS, Subject, format_faults
from agentgym_rl.envs.core import EnvUnavailable, MissingExtra, ProtocolError, TaskNotFound
from agentgym_rl.envs.hosts import LocalHost
from agentgym_rl.envs.miniwob import MiniWoB, episode
from agentgym_rl.envs.miniwob.tasks import SEEDS, SPLITS, TEXTS, only, problem
from agentgym_rl.envs.probe import follow, walk

PAGES = TEXTS.tasks
needs_browser = pytest.mark.usefixtures("chromium", "pages")


def task(page: str, seed: int = 0) -> Task:
    return Task("miniwob", seed * len(PAGES) + PAGES.index(page))


@pytest.fixture(scope="module")
def pages() -> None:
    if episode.find_spec("miniwob") is None:
        pytest.skip("the extra miniwob is not installed")


@pytest.fixture(scope="module")
def env() -> Iterator[MiniWoB]:
    env = MiniWoB()
    yield env
    asyncio.run(env.close())


def test_pages_take_turns_and_splits_differ_in_their_seeds() -> None:
    assert len(PAGES) == len(set(PAGES)) == 125
    assert {name: len(split) for name, split in SPLITS.items()} == {"train": 25_000, "val": 625, "test": 625}
    assert [str(problem(index)) for index in (0, 124, 125)] == [
        "ascending-numbers, seed 0",
        "visual-addition, seed 0",
        "ascending-numbers, seed 1",
    ]
    for name, split in SPLITS.items():
        problems = {problem(index) for index in split}
        assert {problem.seed for problem in problems} == set(SEEDS[name])
        assert {problem.mode for problem in problems} == {"test" if name == "test" else "train"}
    with pytest.raises(TaskNotFound, match="miniwob has no task 26250: valid are 0 to 26249"):
        problem(26_250)


def test_pages_can_be_chosen() -> None:
    splits = MiniWoB(pages="click-test*, enter-text").spec.splits
    assert {problem(index).page for index in splits["test"]} == {
        "click-test", "click-test-2", "click-test-transfer", "enter-text",
    }  # fmt: skip
    assert len(splits["test"]) == 20 and only("") == dict(SPLITS)
    with pytest.raises(ValueError, match="none of MiniWoB\\+\\+ matches 'clack-\\*'"):
        MiniWoB(pages="click-test, clack-*")


def test_the_package_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episode, "find_spec", lambda name: None)
    episode.folder.cache_clear()
    with pytest.raises(MissingExtra, match=r"'miniwob'; install it with: pip install 'agentgym-rl\[miniwob\]'"):
        episode.folder()


@needs_browser
def test_only_files_of_the_package_are_served() -> None:
    assert (asset := episode.serve(f"{episode.SITE}/core/core.js")) is not None and b"seedrandom" in asset.body
    for url in ("/../__init__.py", "/%2e%2e/__init__.py", "/none.html", "//etc/passwd", "/core"):
        assert episode.serve(episode.SITE + url) is None
    assert episode.serve("http://example.com/core/core.js") is None
    on_disk = {path.stem for path in (episode.folder() / "miniwob").glob("*.html")}
    assert set(PAGES) <= on_disk


@needs_browser
@pytest.mark.timeout(300)
def test_it_keeps_the_contract() -> None:
    env = MiniWoB()
    tasks = [task("click-checkboxes"), task("click-tab-2", 205)]
    subject = Subject("miniwob", {}, env, tasks, tuple(SPLITS), LocalHost())

    async def faults() -> list[str]:
        left = (
            "deterministic across processes",
            "no game in two splits",
            "achieved goals earn success",
            "steps left count down",
        )
        checks = [check for name, check in CHECKS.items() if name not in left]
        try:
            return [fault for check in checks async for fault in check(subject)]
        finally:
            await env.close()

    assert asyncio.run(faults()) == []


@needs_browser
def test_the_compact_wording_says_the_same_in_fewer_words() -> None:
    async def play() -> list[str]:
        env = MiniWoB(style="compact")
        trail = await walk(env, task("enter-text"), follow(["go", "fill [2] [Agustina]", "click [3]"]))
        await env.close()
        return [trail.first.text, *(step.observation.text for step in trail.steps)]

    first, bad, filled, last = asyncio.run(play())
    assert first.endswith("[2] textbox ''\n[3] button 'Submit'") and last == "done"
    assert bad.startswith("invalid: there is no action 'go'") and len(bad) < 120
    assert filled == "[2] textbox '' value: 'Agustina' focused: True\n[3] button 'Submit'"


@needs_browser
@pytest.mark.parametrize(
    "page",
    ["buy-ticket", "choose-date-medium", "click-color", "drag-shapes", "email-inbox-reply", "login-user", "odd-or-even",
     "search-engine", "use-slider", "bisect-angle", "find-midpoint", "click-menu", "click-scroll-list"],
)  # fmt: skip
def test_the_oracle_solves(env: MiniWoB, page: str) -> None:
    plan = env.oracle(task(page, 1))
    trail = asyncio.run(walk(env, task(page, 1), follow(plan)))
    assert trail.reward > 0 and trail.steps[-1].terminated and not any(step.info["invalid"] for step in trail.steps)
    assert list(format_faults(env.spec, plan)) == []
    assert trail.steps[-1].info["raw_reward"] == trail.reward


@needs_browser
def test_an_episode_is_the_same_everywhere(env: MiniWoB) -> None:
    plan = ["type [2] [x] [0]", "fill [2] [Ignacio]", "hover [3]", "qwzx", "wait", "click [3]"]
    trail = asyncio.run(walk(env, task("enter-text"), follow(plan)))
    assert trail.first.text.splitlines() == [
        'Task: Enter "Agustina" into the text field and press Submit.', "",
        "[2] textbox '' required: False", "[3] button 'Submit'",
    ]  # fmt: skip
    assert trail.first.actions == ("type [2] [Agustina] [0]", "click [3]")
    assert [step.observation.text.splitlines()[0] for step in trail.steps] == [
        "[2] textbox '' value: 'x' focused: True required: False",
        "[2] textbox '' value: 'Ignacio' focused: True required: False",
        "[2] textbox '' value: 'Ignacio' focused: True required: False",
        "Error: there is no action 'qwzx'; there are " + ", ".join(TEXTS.commands),
        "[2] textbox '' value: 'Ignacio' focused: True required: False",
        "The task is over: it failed.",
    ]
    assert trail.reward == 0 and trail.steps[-1].info == {"invalid": False, "raw_reward": -1.0}


@needs_browser
def test_time_costs_only_with_decay(env: MiniWoB) -> None:
    solved = task("click-test")

    async def rewards(decay: bool, waits: int) -> tuple[float, bool]:
        session = MiniWoB(decay=decay)
        trail = await walk(session, solved, follow(["wait"] * waits + env.oracle(solved)))
        await session.close()
        return trail.reward, trail.done

    async def all_of_them() -> list[tuple[float, bool]]:
        return [await rewards(*arguments) for arguments in ((False, 0), (False, 12), (True, 0), (True, 4), (True, 12))]

    free, late, quick, slow, lost = asyncio.run(all_of_them())
    assert free == late == (1.0, True)
    assert quick == (pytest.approx(0.9), True) and slow == (pytest.approx(0.5), True) and lost == (0.0, True)


@needs_browser
def test_the_clock_stands_still_while_the_agent_thinks(env: MiniWoB) -> None:
    async def think() -> list[float]:
        await env.reset(task("click-test"))
        assert env._episode is not None
        ask = env._episode.session.evaluate
        times = [await CHROMIUM.call(ask("Date.now()")) for _ in range(2)]
        await env.step("wait")
        return [*times, await CHROMIUM.call(ask("Date.now()"))]

    first, second, third = asyncio.run(think())
    assert first == second and third == first + 1000


@needs_browser
def test_a_page_cannot_be_left(env: MiniWoB) -> None:
    async def leave() -> str:
        await env.reset(task("click-test"))
        assert env._episode is not None
        leave = "location.href = '/miniwob/click-test-2.html'; location.reload()"
        await CHROMIUM.call(env._episode.session.evaluate(leave))
        return (await env.step("wait")).observation.text

    assert asyncio.run(leave()) == "[2] button 'Click Me!'"


@needs_browser
def test_a_dead_page_is_no_score_and_the_next_episode_is_whole(env: MiniWoB) -> None:
    async def die() -> str:
        await env.reset(task("click-test"))
        assert env._episode is not None
        with pytest.raises(EnvUnavailable):
            await CHROMIUM.call(env._episode.session.goto("chrome://crash"))
        with pytest.raises(EnvUnavailable):
            await env.step("click [2]")
        with pytest.raises(ProtocolError):
            await env.step("click [2]")
        return (await env.reset(task("click-test"))).text

    assert "[2] button 'Click Me!'" in asyncio.run(die())
