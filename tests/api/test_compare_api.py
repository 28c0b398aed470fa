"""Runs compared from Python."""

import sys
from pathlib import Path

import pytest

import agentgym_rl as ag

sys.path.insert(0, str(Path(__file__).parents[1] / "eval"))
from made_runs import write_run


@pytest.fixture
def pair(tmp_path):
    write_run(tmp_path / "a", stages={"bc": 0.1, "grpo": 0.3})
    write_run(tmp_path / "b", algorithm="ppo", stages={"bc": 0.1, "ppo": 0.5})
    return tmp_path


def test_tables_frame_and_page(pair):
    comparison = ag.compare(pair / "a", pair / "b", arms="run", baseline="a")
    frame = comparison.table.set_index(["kind", "arm"])
    assert frame.loc[("success", "b"), "mean"] == 50 and frame.loc[("difference", "b"), "mean"] == 20
    assert "Success in %" in repr(comparison) and "+20.0" in repr(comparison)
    assert (
        "+20.0" in comparison.markdown
        and comparison.markdown == comparison._repr_markdown_()
        and r"\toprule" in comparison.latex
    )
    assert "<h1>2 runs compared</h1>" in comparison.write_page(pair / "page.html").read_text()


def test_remarks_are_shown_as_they_are(pair, monkeypatch):
    monkeypatch.setattr(ag.RunComparison, "_remarks", ["left out: runs/[b]:100:"])
    assert "left out: runs/[b]:100:" in repr(ag.compare(pair / "a"))


def test_globs_and_mistakes(pair):
    assert len(ag.compare(f"{pair}/*").comparison.runs) == 2
    with pytest.raises(FileNotFoundError, match="does not exist"):
        ag.compare(pair / "c")
    with pytest.raises(ValueError, match="there is no arm 'sft'"):
        ag.compare(pair, baseline="sft")


def test_runs_that_are_left_out_are_named(pair):
    (pair / "going").mkdir()
    (pair / "going" / "config.yaml").write_text("seed: 0\n")
    comparison = ag.compare(pair)
    assert comparison.begun == (pair / "going",)
    for text in (repr(comparison), comparison.markdown, comparison.latex):
        assert "left out, nothing is learnt yet: " in text
