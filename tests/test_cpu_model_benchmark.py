"""benchmarks/cpu_model.py without an engine: its examples, its plain loops and what it prints."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("verl")

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import cpu_model  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

from agentgym_rl.rollout.supervised import Example  # noqa: E402

ROWS = [
    Example(list(range(1, length + 1)), [0.0] * (length // 2) + [1.0] * (length - length // 2))
    for length in (400, 7, 300, 12, 500)
]


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=600, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=600,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    return str(tmp_path)


def test_micro_batches_hold_every_row_and_no_more_than_their_tokens():
    found = list(cpu_model.micro_batches(ROWS))
    assert sorted(len(row.input_ids) for rows in found for row in rows) == [7, 12, 300, 400, 500]
    assert [len(rows) for rows in found] == [3, 2]
    assert all(len(rows) * max(len(row.input_ids) for row in rows) <= cpu_model.MICRO_TOKENS for rows in found)


@pytest.mark.slow
def test_the_plain_loops_learn_the_same(folder):
    plain, tight = (cpu_model.Plain(folder, "float32", tight=tight) for tight in (False, True))
    for _ in range(2):
        assert plain.update(ROWS) == pytest.approx(tight.update(ROWS), rel=1e-5)
    assert plain.update(ROWS) != pytest.approx(cpu_model.Plain(folder, "float32", tight=False).update(ROWS), rel=1e-7)


def test_rates_and_ratios(capsys):
    cpu_model.show("training", 1000, {"ours": [10.0, 5.0, 20.0], "plain": [20.0, 20.0], "tight": [10.0]})
    out = capsys.readouterr().out
    assert "training    ours       100.0 [50.0, 200.0] tokens/s" in out
    assert "ours/plain 2.00 (goal >= 0.9: met)" in out and "ours/tight 1.00" in out
    cpu_model.show("generation", 100, {"ours": [10.0], "offline": [5.0]})
    assert "ours/offline 0.50 (goal >= 0.9: missed)" in capsys.readouterr().out
