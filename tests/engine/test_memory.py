"""The memory that a run will need, told before its launch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_rl.algorithms.base import Needs
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import RecipeError
from agentgym_rl.engine.run import memory, tiny, train
from agentgym_rl.engine.verl.network import skeleton

TINY = ("name=x", "env=maze", "model=tiny")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tiny") / "model"
    config = recipes.load(list(TINY))
    tiny.build(folder, config.model, ["go left", "go right"] * 50, seed=0)
    return skeleton(str(folder))


PLAN = memory.Plan(workers=1, servers=1, loops=1, micro_tokens=4096, kv_cache_gib=1.0)


def test_shapes(model: Any) -> None:
    width, mlp, layers, vocabulary = 96, 288, 3, 1024
    sizes = memory.shapes(PLAN, model)
    per_layer = width * width * 2 + width * 32 * 2 + 3 * width * mlp
    assert sizes.linear == layers * per_layer + width * sizes.vocabulary
    assert sizes.learn == sizes.parameters > sizes.linear
    assert sizes.vocabulary <= vocabulary
    last = memory.shapes(replace(PLAN, train_layers=1), model)
    assert sizes.parameters / 5 < last.learn < sizes.parameters / 3 and last.kept < sizes.kept
    adapters = memory.shapes(replace(PLAN, lora_rank=2), model)
    assert adapters.learn < sizes.parameters / 20 and adapters.kept == sizes.kept, "they lie in all layers"


BIG = memory.Shapes(parameters=1 << 30, learn=1 << 30, linear=1 << 29, kept=1000.0, vocabulary=1000)


def more(**changes: Any) -> float:
    """GiB that a plan needs beyond the usual one, whatever the episodes are."""
    return memory.need(replace(PLAN, **changes), BIG).least - memory.need(PLAN, BIG).least


def test_what_a_model_needs() -> None:
    """A thousand million parameters: weights, gradients and two moments in the worker; weights and layers in vLLM."""
    needed = memory.need(PLAN, BIG)
    assert needed.sure["training worker"] == memory.EMPTY["training worker"] + 16
    assert needed.sure["vLLM server"] == memory.EMPTY["vLLM server"] + 4 + 2 + 1
    assert needed.batch["training worker"] == pytest.approx(4096 * 4 * 3000 / 2**30)
    assert more(critic=True) == pytest.approx(16)
    assert memory.need(replace(PLAN, critic=True), BIG).sure["models beside the policy"] == 16
    assert more(bfloat16=True) == pytest.approx(2 - 2 - 1), "a copy in the worker; half as much in vLLM"
    assert more(kv_cache_gib=3.0) == pytest.approx(2)
    assert more(loops=3) == pytest.approx(2 * memory.EMPTY["agent-loop worker"])
    assert more(workers=2) == pytest.approx(memory.EMPTY["training worker"]), "they share the weights"
    assert more(servers=2) == pytest.approx(memory.EMPTY["vLLM server"] + 4 + 2 + 1)
    assert more(micro_tokens=9999) == 0


@pytest.mark.parametrize(
    ("total", "free", "says"),
    [(64.0, 60.0, "60.0 of 64.0 GiB are free"), (64.0, 2.0, "2.0 of 64.0 GiB are free: where it runs out, lower")],
)
def test_the_line(model: Any, monkeypatch: pytest.MonkeyPatch, total: float, free: float, says: str) -> None:
    monkeypatch.setattr(memory, "machine", lambda: (total, free))
    line = memory.report(PLAN, model)
    assert line.startswith("memory: up to ") and says in line
    assert ("engine.micro_tokens" in line) == (free < 5)


def test_a_run_that_cannot_fit_is_refused(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine", lambda: (2.0, 2.0))
    with pytest.raises(RecipeError, match=r"needs \d\.\d GiB of memory or more, .* gives it 2\.0 GiB; .*lower engine"):
        memory.report(PLAN, model)


def test_the_plan_of_a_configuration() -> None:
    def plan(*overrides: str) -> memory.Plan | None:
        run = Resolved(recipes.load([*TINY, *overrides]))
        vars(run)["needs"] = Needs(rows_together=2)
        return train._plan(run)

    changed = ("engine.workers=4", "engine.tensor_parallel=2", "rollout.workers=3", "engine.micro_tokens=2048",
               "engine.kv_cache_gib=2", "model.lora_rank=8", "engine.dtype=bfloat16")  # fmt: skip
    assert plan(*changed) == memory.Plan(
        workers=4, servers=2, loops=3, micro_tokens=2048, kv_cache_gib=2.0, lora_rank=8, bfloat16=True
    )
    assert plan("engine.micro_tokens=8").micro_tokens == 2 * recipes.load(list(TINY)).model.context, "of a pair"
    assert plan("engine=gpu") is None and plan("engine.ray_address=auto") is None


def test_the_limit_of_a_control_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    total, free = memory.machine()
    assert 0 < free <= total
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text(f"{1 << 29}\n")
    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    assert memory.machine()[0] in (0.5, total), "where there are control groups"
