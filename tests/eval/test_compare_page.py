"""The page of a comparison."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import write_run
from test_learning import metrics

from agentgym_rl.eval.comparison.charts import look
from agentgym_rl.eval.comparison.compare import compare
from agentgym_rl.eval.comparison.page import _reach, links, page, write_page
from agentgym_rl.eval.comparison.runs import read
from agentgym_rl.eval.html import render

VOID = {"meta", "input"}
NAMESPACE = "http://www.w3.org/2000/svg"
"""The only address that a page may contain: SVG elements are made by it, nothing is asked for."""


class Page(HTMLParser):
    """Checks that elements close in order; keeps what a reader and a browser would see."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.tags = [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, name, attrs):
        self.tags.append((name, dict(attrs)))
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attrs):
        self.tags.append((name, dict(attrs)))

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if "style" not in self.open and "script" not in self.open:
            self.text.append(data)


def comparison(tmp_path, evil="easy"):
    stages = {"bc": 0.2, "grpo": 0.6, "control": 0.3}
    runs = [
        read(
            write_run(
                tmp_path / f"{kind}{seed}", seed=seed, stages=stages, episodes=300, seconds=180.0,
                metrics=metrics([0.3, 0.4, 0.5], share=[0.5, 0.6, 0.7], max_turns=[4, 4, 8], tokens=[1e3, 2e3, 3e3]),
                config={"envs": {"toy": {"difficulty": kind if kind == "plain" else evil}}},
            )
        )
        for kind in ("plain", "other")
        for seed in (0, 1)
    ]  # fmt: skip
    return compare(runs)


def test_the_page_is_whole_and_needs_nothing_else(tmp_path):
    html = page(comparison(tmp_path))
    seen = Page(html)
    assert not any(name in ("link", "img", "iframe", "object", "image") for name, _ in seen.tags)
    assert not any(
        key in ("src", "href") and not value.startswith("#") for _, attrs in seen.tags for key, value in attrs.items()
    )
    assert not re.search(r"url\(|@import|https?:", html.replace(NAMESPACE, ""))
    ids = [attrs["id"] for _, attrs in seen.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["href"][1:] for name, attrs in seen.tags if name == "a"} <= set(ids)
    text = " ".join(seen.text)
    for part in ("Success, %", "60.0", "Difference on the same seeds", "+40.0", "Learning curves", "Turn limit",
                 "Points gained", "Configurations differ in", "envs.toy.difficulty", "Runs"):  # fmt: skip
        assert part in text
    axes = {
        "episodes": "training episodes",
        "tokens": "training tokens",
        "updates": "updates",
        "minutes": "minutes",
        "steps": "training steps",
    }
    assert [chart["axes"] for chart in charts(html)][:3] == [axes] * 3
    assert [chart["name"].split(", ")[0] for chart in charts(html)[3:]] == [
        "toy: success",
        "toy: success",
        "tokens a second",
    ]


def charts(html):
    [data] = re.findall('id="data">(.*?)</script>', html, flags=re.DOTALL)
    return json.loads(data)


def test_only_the_pages_own_script_may_run(tmp_path):
    html = page(comparison(tmp_path))
    [script] = re.findall("<script>(.*?)</script>", html, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    [policy] = [attrs["content"] for name, attrs in Page(html).tags if attrs.get("http-equiv")]
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy


def test_colours_are_light_and_dark(tmp_path):
    html = page(comparison(tmp_path))
    body = html[html.index("<body") :]
    assert not re.search(r"#[0-9a-f]{6}\b", body), "a fixed colour is unreadable on dark or light"
    used = set(re.findall(r"var\((--[a-z0-9]+)\)", body)) | {f"--{line['colour']}" for line in lines(html)}
    assert used and all(f"{name}:light-dark(" in html for name in used)


def lines(html):
    return [line for chart in charts(html) for line in chart["lines"]]


def test_shares_of_a_single_world_say_nothing(tmp_path):
    assert "Shares of the environments" not in page(comparison(tmp_path))


def test_shares_of_two_worlds(tmp_path):
    rows = [
        {**row, **({"env/b/share": 1 - row["env/a/share"]} if "env/a/share" in row else {})}
        for row in json.loads(json.dumps(metrics([0.3, 0.4, 0.5], share=[0.5, 0.6, 0.7])).replace("/toy/", "/a/"))
    ]
    run = write_run(tmp_path / "two", stages={"bc": 0.2, "grpo": 0.5}, panels=("a/new", "b/new"), metrics=rows)
    html = page(compare([read(run)]))
    section = html[html.index('id="shares"') : html.index('id="cost"')]
    assert "data-chart" in section and "constant in" not in section
    points = [says for line in lines(html) for says in line["says"]]
    assert any(says.startswith("a: 70.0%") for says in points) and any(says.startswith("b: 30.0%") for says in points)


def test_the_tables_say_over_how_many_seeds_a_mean_is(tmp_path):
    whole = [write_run(tmp_path / f"{n}", seed=n, stages={"bc": 0.2, "grpo": 0.5, "control": 0.3}) for n in (0, 1)]
    alone = write_run(tmp_path / "2", seed=2, stages={"bc": 0.2, "grpo": 0.6})
    html = page(compare([*map(read, whole), read(alone)]))
    assert "2 of 3 seeds" in html[html.index('id="differences"') :]


def test_the_scale_of_differences_holds_their_intervals(tmp_path):
    """Of single runs an interval reaches further than the runs themselves."""
    runs = [
        read(write_run(tmp_path / name, algorithm=name, stages={name: share}))
        for name, share in (("grpo", 0.4), ("ppo", 0.3))
    ]
    comparison = compare(runs, by="run", baseline="ppo")
    (cell,) = comparison.differences[0].cells
    assert _reach(comparison) > max(map(abs, cell.interval)) > abs(cell.mean)


def test_tokens_that_no_run_knows_cannot_be_chosen(tmp_path):
    rows = metrics([0.3, 0.4, 0.5])
    run = read(write_run(tmp_path / "a", stages={"bc": 0.2, "grpo": 0.5}, metrics=rows))
    seen = Page(page(compare([run])))
    [tokens] = [attrs for _, attrs in seen.tags if attrs.get("id") == "x-tokens"]
    assert "disabled" in tokens and "Tokens are not known of: grpo" in " ".join(seen.text)
    [tokens] = [attrs for _, attrs in Page(page(comparison(tmp_path / "more"))).tags if attrs.get("id") == "x-tokens"]
    assert "disabled" not in tokens


def test_runs_link_to_their_episodes(tmp_path):
    compared = comparison(tmp_path)
    view = tmp_path / "out" / "view" / "plain0"
    view.mkdir(parents=True)
    (view / "index.html").write_text("<p>episodes")
    link = links(compared, tmp_path / "out" / "view", tmp_path / "out")
    html = write_page(compared, tmp_path / "out" / "compare.html", link).read_text()
    assert [attrs["href"] for name, attrs in Page(html).tags if name == "a" and attrs["href"][0] != "#"] == [
        "view/plain0/index.html"
    ]
    with pytest.raises(FileNotFoundError, match="export them"):
        links(compared, tmp_path / "nothing", tmp_path)


EVIL = st.text(st.sampled_from("<>&\"'/=$_[]{}script on¡雪 "), min_size=1, max_size=20)


@given(EVIL)
def test_a_page_escapes_whatever_it_shows(evil):
    html = render("html/page.html", "", [evil], title=evil)
    seen = Page(html)
    assert evil in "".join(seen.text) and charts(html) == [evil]
    assert [name for name, _ in seen.tags].count("script") == 2


@pytest.mark.parametrize("evil", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "$\\frac{1}{2}$ & _x"])
def test_configurations_cannot_break_the_page(tmp_path, evil):
    seen = Page(page(comparison(tmp_path, evil)))
    assert evil in "".join(seen.text)
    scripts = [attrs.get("type") for name, attrs in seen.tags if name in ("script", "img")]
    assert scripts == ["application/json", None]


def test_a_page_without_curves(tmp_path):
    compared = compare([read(write_run(tmp_path / "a", algorithm="bc", stages={"bc": 0.4}))])
    html = page(compared)
    assert "Learning curves" not in html and 'id="x-episodes"' not in html and "40.0" in html


def test_arms_look_different(tmp_path):
    stages = {"bc": 0.2, "grpo": 0.5, "control": 0.3}
    runs = [
        read(write_run(tmp_path / f"{lr}", stages=stages, config={"algorithm": {"name": "grpo", "lr": lr}}))
        for lr in range(10)
    ]
    compared = compare(runs)
    online = [look(compared.arms, number) for number, arm in enumerate(compared.arms) if arm.stage == "grpo"]
    assert len(set(online)) == 10
