"""The pictures of a comparison."""

import pytest
from made_runs import write_run
from test_compare_page import comparison

pytest.importorskip("matplotlib")

from agentgym_rl.eval.comparison.charts import write_png
from agentgym_rl.eval.comparison.compare import compare
from agentgym_rl.eval.comparison.runs import read


@pytest.mark.slow
def test_pictures_are_written(tmp_path):
    written = write_png(comparison(tmp_path, "a<b$c$"), tmp_path / "out" / "a.png")
    assert [path.name for path in written] == ["a.png", "a-shares.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000 for path in written)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a-shares.png", "a.png"]


def test_a_picture_of_nothing_is_refused(tmp_path):
    untrained = compare([read(write_run(tmp_path / "a", algorithm="bc", stages={"bc": 0.4}))])
    with pytest.raises(ValueError, match="no curves to draw"):
        write_png(untrained, tmp_path / "a.png")
