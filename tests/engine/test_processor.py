"""Whether a CPU computes in bfloat16, and what follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentgym_rl.algorithms.correction import Correction
from agentgym_rl.engine.recipe import config as configuration
from agentgym_rl.engine.recipe import preflight
from agentgym_rl.engine.recipe.compose import load
from agentgym_rl.engine.recipe.config import Config
from agentgym_rl.engine.recipe.digest import digest
from agentgym_rl.engine.recipe.processor import has_bfloat16
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import RecipeError
from agentgym_rl.engine.verl.mapping import verl_config

RUN = ("experiment=smoke", "algorithm=grpo")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ("processor : 0\nflags\t\t: fpu avx512f avx512_bf16\n\nprocessor : 1\nflags : amx_bf16 fpu\n", True),
        ("processor : 0\nflags : fpu avx512_bf16\n\nprocessor : 1\nflags : fpu avx512f\n", False),
        ("flags : fpu avx512f avx512_vnni\nbugs : bf16\n", False),
        ("Features\t: fp asimd bf16 i8mm\n", True),
        ("cpu : POWER9\n", False),
        (None, False),
    ],
)
def test_what_linux_says_of_a_processor(tmp_path: Path, facts: str | None, expected: bool) -> None:
    file = tmp_path / "cpuinfo"
    if facts is not None:
        file.write_text(facts)
    assert has_bfloat16(file) is expected


@pytest.fixture(params=[True, False], ids=["with", "without"])
def processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether this machine's has arithmetic for bfloat16."""
    for module in (configuration, preflight):
        monkeypatch.setattr(module, "has_bfloat16", lambda: request.param)
    return bool(request.param)


def types(config: Config) -> tuple[Any, ...]:
    """Of workers, of a critic, and of vLLM."""
    verl = verl_config(Resolved(config), "model", Path("run"))
    actor = verl.actor_rollout_ref.actor.fsdp_config
    assert actor.model_dtype == verl.critic.fsdp.model_dtype == "float32", "the weights that learn"
    return (
        actor.mixed_precision.param_dtype,
        verl.critic.fsdp.mixed_precision.param_dtype,
        verl.actor_rollout_ref.rollout.dtype,
    )


@pytest.mark.parametrize("processor", [True], indirect=True)
def test_auto_takes_bfloat16_where_the_processor_has_it(processor: bool) -> None:
    config = load([*RUN, "engine.dtype=auto"])
    assert types(config) == ("bf16", "bf16", "bfloat16")
    assert config.algorithm.correction.chosen(off_policy=config.engine.off_policy) is Correction.TIS  # type: ignore[attr-defined]


@pytest.mark.parametrize("processor", [False], indirect=True)
def test_auto_takes_float32_elsewhere(processor: bool) -> None:
    config = load([*RUN, "engine.dtype=auto"])
    assert types(config) == ("fp32", "fp32", "float32")
    assert config.algorithm.correction.chosen(off_policy=config.engine.off_policy) is Correction.NONE  # type: ignore[attr-defined]


def test_float32_is_the_default(processor: bool) -> None:
    assert types(load(list(RUN))) == ("fp32", "fp32", "float32")


def test_weights_cloned_in_another_type_are_others(processor: bool) -> None:
    chosen, usual = (digest(load([*RUN, *overrides]), cloned=True) for overrides in (["engine.dtype=auto"], []))
    assert (chosen != usual) == processor


def test_bfloat16_is_refused_where_it_would_be_slow(processor: bool) -> None:
    config = load([*RUN, "engine.dtype=bfloat16"])
    if processor:
        preflight.check_config(Resolved(config))
        assert types(config) == ("bf16", "bf16", "bfloat16")
    else:
        with pytest.raises(
            RecipeError, match=r"engine\.dtype=bfloat16 would be far slower .* set engine\.dtype=float32"
        ):
            preflight.check_config(Resolved(config))
