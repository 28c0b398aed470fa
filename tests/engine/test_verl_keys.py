"""Which keys of verl may be given: those that a run reads, by verl's own sources. Others say what to set instead."""

import ast
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("verl")

from omegaconf import DictConfig, OmegaConf

from agentgym_rl.algorithms import algorithms
from agentgym_rl.engine.recipe.compose import load
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import RecipeError
from agentgym_rl.engine.recipe.verl_keys import KEYS, check_verl_keys, is_open, refusal
from agentgym_rl.engine.verl.mapping import check_verl, defaults, verl_config

READ = [(file, key) for file, keys in KEYS.read.items() for key in keys]


@cache
def named_in(file: str) -> set[str]:
    """Attributes and texts that a source file reads."""
    package, _, rest = file.partition("/")
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    nodes = [*ast.walk(ast.parse((Path(spec.origin).parent / rest).read_text()))]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    return attributes | {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@cache
def of_verl() -> DictConfig:
    return defaults()


def has(key: str) -> bool:
    """Whether verl's configuration has a key, also one without a value."""
    block, _, name = key.rpartition(".")
    node = OmegaConf.select(of_verl(), block) if block else of_verl()
    return isinstance(node, DictConfig) and name in [*node]


@pytest.mark.parametrize(("file", "key"), READ)
def test_verl_reads_what_the_table_says(file, key):
    assert key.rpartition(".")[2] in named_in(file), f"{file} does not read {key}"


def test_verl_has_the_keys_of_the_tables():
    keys = {key for _, key in READ} | {*KEYS.harmful, *KEYS.ignored, *KEYS.own, *KEYS.whole}
    assert [key for key in sorted(keys) if not has(key) and not is_open(key)] == []


def test_no_key_is_both_read_and_refused():
    assert [key for _, key in READ if refusal(key)] == []
    assert len(READ) == len({key for _, key in READ})


def test_most_keys_of_verl_are_refused():
    """The table is the exception: what is not in it may not be given."""
    leaves = [key for key, _ in walked(OmegaConf.to_container(of_verl()))]
    assert len(leaves) > 500
    assert sum(not refusal(key) for key in leaves) < len(leaves) / 4


def walked(tree, prefix="") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from walked(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def below(kind: type, prefix: str) -> Iterator[str]:
    """The keys of a configuration."""
    for field in fields(kind):
        value = getattr(kind(), field.name)
        yield f"{prefix}{field.name}"
        if is_dataclass(value):
            yield from below(type(value), f"{prefix}{field.name}.")


def test_keys_of_ours_that_are_named_exist():
    config = load(["experiment=smoke"])
    ours = {"algorithm", "model", "seed", "name", "envs.<name>.split", "envs.<name>.panels", "envs.<name>.max_turns"}
    for name in ("model", "rollout", "engine", "run", "logger"):
        ours |= {*below(type(getattr(config, name)), f"{name}.")}
    for kind in algorithms().values():
        ours |= {*below(kind.Config, "algorithm.")}
    ours |= {f"verl.{key}" for _, key in READ}
    assert {key for names in KEYS.own.values() for key in names.split(" and ")} - ours == set()


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("algorithm.norm_adv_by_std_in_grpo", "is set by algorithm.normalise_by_std"),
        ("algorithm.use_pf_ppo", "has no effect: nothing in a run reads it"),
        ("algorithm.kl_ctrl.kl_coef", "is set by algorithm.loss.kl"),
        ("actor_rollout_ref.actor.grad_clip", "is set by algorithm.optimizer.clip_grad"),
        ("actor_rollout_ref.actor.tau_pos", "has no effect: algorithm.loss=sapo"),
        ("actor_rollout_ref.actor.shuffle", "is refused: each update keeps the rows"),
        ("actor_rollout_ref.rollout.multi_turn.max_assistant_turns", r"is set by envs\.<name>\.max_turns"),
        ("actor_rollout_ref.rollout.multi_turn.max_user_turns", r"is set by envs\.<name>\.max_turns"),
        ("actor_rollout_ref.rollout.engine_kwargs.sglang.attention_backend", "has no effect: vllm generates"),
        ("reward.reward_manager.name", "has no effect: episodes bring the reward"),
        ("reward.num_workers", "has no effect: episodes bring the reward"),
        ("trainer.max_actor_ckpt_to_keep", r"is set by run\.keep_checkpoints"),
        ("trainer.val_only", "has no effect: agentgym-rl eval"),
        ("trainer.v1.agentgym.fewest_samples=1", "is set by this package"),
        ("data.shuffle", "has no effect: the mixture draws"),
        ("distillation.enabled", "has no effect: nothing in a run reads it"),
    ],
)
def test_refused(key, says):
    ours = {"reward.num_workers", "trainer.v1.agentgym"}
    with pytest.raises(RecipeError, match=rf"^verl\.{key} {says}"):
        check_verl_keys({key: 1}, ours)


def test_unknown_keys_and_keys_of_ours_are_refused_where_a_run_is_composed():
    for key, says in (
        ("actor.tau_posi", "is unknown"),
        ("actor.shuffle", "is refused"),
        ("agentgym.train_layers", "is set"),
    ):
        config = load(["experiment=smoke", f"verl.actor_rollout_ref.{key}=true"])
        with pytest.raises(RecipeError, match=rf"verl\.actor_rollout_ref\.{key} {says}"):
            check_verl(Resolved(config))


@pytest.mark.slow
def test_keys_of_a_critic_where_there_is_one():
    key = "verl.critic.cliprange_value=0.1"
    config = load(["experiment=smoke", "algorithm=ppo", key])
    assert verl_config(Resolved(config), "model", Path("run")).critic.cliprange_value == 0.1
    with pytest.raises(RecipeError, match=r"is set by algorithm\.critic_weight_decay"):
        check_verl(Resolved(load(["experiment=smoke", "algorithm=ppo", "verl.critic.optim.weight_decay=0.1"])))
    with pytest.raises(RecipeError, match=r"verl\.critic has no effect: algorithm=grpo has no critic"):
        load(["experiment=smoke", "algorithm=grpo", key])
