"""benchmarks/allocator.py and threads.py without an engine: sides, batches and what they print."""

import sys
from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("verl")

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import allocator
import threads

from agentgym_rl.engine.verl import environment


def test_without_tcmalloc_there_is_nothing_to_compare(monkeypatch):
    monkeypatch.setattr(allocator, "find_library", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["allocator.py", "model"])
    with pytest.raises(SystemExit, match="install Debian's libtcmalloc-minimal4"):
        allocator.main()


def test_sides_differ_in_the_library_that_is_loaded_first_and_in_what_is_kept(monkeypatch):
    monkeypatch.setattr(environment, "find_library", lambda name: "libtcmalloc_minimal.so.4")
    names = ("LD_PRELOAD", "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    found = {}
    for side, variables in allocator.SIDES.items():
        with monkeypatch.context() as patch:
            for key, value in variables.items():
                patch.setenv(key, value)
            found[side] = [environment.environment("cpu")[name] for name in names]
    library, few = "libtcmalloc_minimal.so.4", environment.KEPT_PRODUCTS
    assert found == {"ours": [library, few, few], "all shapes": [library, "1024", "1024"], "glibc": ["", few, few]}


def test_every_side_gets_the_same_rows_of_many_lengths():
    first, again = (list(islice(allocator.batches(50), 10)) for _ in range(2))
    assert first == again
    sizes = [len(row.input_ids) for batch in first for row in batch]
    assert len(set(sizes)) > 20 and max(sizes) <= allocator.MICRO_TOKENS
    assert all(0.4 < sum(row.loss_weight) / len(row.loss_weight) <= 0.5 for batch in first for row in batch)


def test_rates_memory_and_ratios(capsys):
    allocator.show(
        {
            "ours": [{"rates": [200.0, 100.0], "gib": [2.0, 3.0]}, {"rates": [150.0, 150.0], "gib": [2.0, 2.0]}],
            "glibc": [{"rates": [100.0, 50.0], "gib": [4.0, 5.0]}, {"rates": [100.0, 100.0], "gib": [5.0, 4.0]}],
        }
    )
    out = capsys.readouterr().out
    assert "ours        150.0 [100.0, 200.0] tokens/s, worker at most 2.50 [2.00, 3.00] GiB" in out
    assert "ours/glibc: 1.75 of the tokens/s, update by update, 0.50 of the memory" in out


def test_the_benchmark_of_threads_compares_update_by_update(monkeypatch, capsys):
    monkeypatch.setattr(threads, "cores", lambda: 2)
    monkeypatch.setattr(threads, "measure", lambda *_: {1: [30.0, 40.0, 100.0], 2: [10.0, 20.0, 100.0]})
    monkeypatch.setattr(sys, "argv", ["threads.py"])
    threads.main()
    *_, one, both, ratio = capsys.readouterr().out.splitlines()
    assert one == "1 threads       40 [30, 100] tokens/s" and both == "2 threads       20 [10, 100] tokens/s"
    assert ratio == "1/2: 2.00 [1.00, 3.00] of the tokens/s, update by update"
    monkeypatch.setattr(threads, "cores", lambda: 1)
    with pytest.raises(SystemExit, match="one core"):
        threads.main()


def test_the_benchmark_of_threads_has_the_tiny_models_engine_without_a_folder():
    config = threads.chosen(None)
    assert config.model.path is None and config.engine.threads == 1
