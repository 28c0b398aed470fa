"""Keys that are accepted by type and still have no effect in a run: to set one is an error."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from agentgym_rl.algorithms.mixture import mixtures
from agentgym_rl.engine.recipe.config import Config, Device, Mode, Stragglers
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import RecipeError

UNLEARNED = "nothing is cloned: cloning.epochs=0, and neither the algorithm nor run.control learns from demonstrations"


@dataclass(frozen=True, slots=True)
class Unused:
    """A key without an effect."""

    key: str
    """Also stands for all keys below it."""
    why: str
    in_recipes: bool = True
    """It is an error in a recipe, too. A recipe may prepare what the command line switches off."""


def check_unused(run: Resolved, given: Collection[str] = ()) -> None:
    """No key is set that has no effect beside the others.

    Args:
        given: keys of the command line, without those that are null, which takes out what a recipe sets. A key of
            a recipe is set where its value is not the default.

    Raises:
        RecipeError: names the key and says why.
    """
    for unused in _unused(run):
        says = f"{unused.key} has no effect: {unused.why}"
        if any(key == unused.key or key.startswith(f"{unused.key}.") for key in given):
            raise RecipeError(says)
        if not unused.in_recipes:
            continue
        value, default = _value_and_default(run.config, unused.key)
        if value != default:
            raise RecipeError(f"{says}; {unused.key}=null takes it out of the recipe" if default is None else says)


def _value_and_default(config: Config, key: str) -> tuple[Any, Any]:
    block: Any = config
    name = key
    while "." in name:
        parts = block if isinstance(block, Mapping) else vars(block)
        part = max((each for each in parts if name.startswith(f"{each}.")), key=len)  # a panel's name may have dots
        block, name = parts[part], name.removeprefix(f"{part}.")
    setting = next(setting for setting in fields(block) if setting.name == name)
    return getattr(block, name), setting.default if setting.default_factory is MISSING else setting.default_factory()


def _unused(run: Resolved) -> Iterator[Unused]:
    config = run.config
    yield from _of_rollouts(config)
    yield from _of_engine(config)
    if not config.model.lora_rank:
        yield from _all("model", "model.lora_rank=0 trains all weights", "lora_alpha", "target_modules")
    if run.needs.critic is None:
        yield Unused("verl.critic", f"algorithm={config.algorithm.name} has no critic", in_recipes=False)
    if run.needs.writer is None:
        yield Unused(
            "writer.policy", f"neither algorithm={config.algorithm.name} nor mixture={config.mixture.type} asks one"
        )
    if config.writer.policy is None:
        yield from _all("writer", "there is no writer", "concurrency", "price", "max_cost", "per_minute")
    learns = run.learns_from_demonstrations
    yield from _of_run(run, learns)
    for name in config.envs:
        yield from _of_env(config, name, learns)
    environments = sum(env.share > 0 for env in config.envs.values())
    for key, why in config.algorithm.unused(off_policy=config.engine.off_policy, environments=environments).items():
        yield Unused(f"algorithm.{key}", why)
    for key, why in config.mixture.unused(environments=environments).items():
        yield Unused(f"mixture.{key}", why, in_recipes=environments > 1)


def _all(block: str, why: str, *keys: str, in_recipes: bool = True) -> Iterator[Unused]:
    """Some keys of a block, for the same reason."""
    return (Unused(f"{block}.{key}", why, in_recipes) for key in keys)


def _of_rollouts(config: Config) -> Iterator[Unused]:
    rollout = config.rollout
    if rollout.context == "full":
        yield Unused("rollout.keep_turns", "rollout.context=full shows all turns")
    if rollout.context != "summary":
        yield Unused("rollout.notes_tokens", f"rollout.context={rollout.context} asks for no notes")
    if rollout.context == "recent" and config.algorithm.policy_gradient is not None:
        yield Unused("algorithm.observation_weight", "rollout.context=recent has observations in prompts alone")
    if config.envs and all(env.harness for env in config.envs.values()):
        why = "programs act in all environments"
        yield from _all("rollout", why, "invalid_limit", "step_seconds", in_recipes=False)
    if rollout.exemplars is None:
        yield Unused("rollout.nearest", "there are no rollout.exemplars")
    if config.algorithm.online is None:
        for key in ("rollout.temperature", "curriculum", "mixture", "budget"):
            yield Unused(key, f"algorithm={config.algorithm.name} has no training episodes", in_recipes=False)


def _of_engine(config: Config) -> Iterator[Unused]:
    engine, ahead = config.engine, ("ahead", "stragglers", "max_staleness")
    if engine.mode is Mode.SYNC:
        yield from _all("engine", "engine.mode=sync rolls out each step before it learns from it", *ahead)
    elif config.algorithm.policy_gradient is None:
        yield from _all("engine", f"algorithm={config.algorithm.name} rolls out nothing ahead of its step", *ahead)
    elif engine.stragglers is Stragglers.WAIT:
        yield Unused("engine.max_staleness", "engine.stragglers=wait takes every step's own tasks")
    if engine.mode is not Mode.SYNC:
        yield Unused("engine.seeded", f"with engine.mode={engine.mode} responses depend on when new weights arrive")
    if engine.mode is not Mode.SEPARATE_ASYNC:
        yield Unused("engine.rollout_workers", "only engine.mode=separate_async has workers for rollouts alone")
    if engine.device is Device.CPU:
        yield Unused("engine.memory_fraction", "engine.device=cpu has engine.kv_cache_gib")
        yield Unused("engine.offload", "engine.device=cpu keeps everything in host memory")
        yield Unused("engine.attention", "engine.device=cpu computes attention row by row")
        yield Unused("engine.gradient_checkpointing", "engine.device=cpu keeps activations")
        yield Unused("engine.compile", "engine.device=cpu compiles nothing")
        yield from _all("engine", "engine.device=cpu has no GPU", "gpu_gib", "memory")
    else:
        yield Unused("engine.kv_cache_gib", f"engine.device={engine.device} has engine.memory_fraction")
        yield Unused("engine.threads", f"engine.device={engine.device} does not compute with threads")
        yield Unused("engine.dtype", f"engine.device={engine.device} computes in bfloat16, or in verl's own settings")


def _of_run(run: Resolved, learns: bool) -> Iterator[Unused]:
    config = run.config
    if not config.cloning.epochs:
        keys = [
            "lr",
            "optimizer",
            "mix_file",
            "mix_share",
            *([] if config.run.control else ["mini_batch_trajectories"]),
        ]
        yield from _all("cloning", "cloning.epochs=0 skips cloning", *keys, in_recipes=False)
    if config.cloning.mix_file is None:
        yield Unused("cloning.mix_share", "cloning.mix_file=null mixes nothing in")
    if not learns:
        yield from _all("cloning", UNLEARNED, "observation_weight", "learn_invalid", in_recipes=False)
    for key, why in config.cloning.optimizer.unused("cloning.optimizer").items():
        yield Unused(f"cloning.optimizer.{key}", why)
    if not run.algorithm.units:
        why = f"algorithm={config.algorithm.name} has no updates that a control could repeat"
        yield Unused("run.control", why, in_recipes=False)
    if config.model.path is not None and not config.cloning.epochs:
        yield Unused("run.cache", "the run builds no tiny model and clones nothing", in_recipes=False)


def _of_env(config: Config, name: str, learns: bool) -> Iterator[Unused]:
    env, place = config.envs[name], f"envs.{name}"
    if env.pool is None:
        yield Unused(f"{place}.pool_seed", f"{place}.pool=null takes all tasks")
    if not learns:
        if env.demonstrations:
            yield Unused(f"{place}.demonstrations", UNLEARNED, in_recipes=False)
        if env.demonstrations_file is not None:
            yield Unused(f"{place}.demonstrations_file", UNLEARNED, in_recipes=False)
    if env.demonstrations_file is not None:
        yield Unused(f"{place}.demonstrations", f"{place}.demonstrations_file is cloned", in_recipes=False)
    if config.algorithm.online is None:
        why = f"algorithm={config.algorithm.name} has no training episodes"
        yield from _all(place, why, "share", "curriculum", in_recipes=False)
    if not env.share:
        yield Unused(f"{place}.curriculum", f"{place}.share=0 has no training episodes", in_recipes=False)
    if env.share and [each for each in config.envs.values() if each.share] == [env]:
        yield Unused(f"{place}.share", "no other environment has a share", in_recipes=False)
    if env.share and not mixtures()[config.mixture.type].uses_given_shares:
        yield Unused(f"{place}.share", f"mixture={config.mixture.type} sets the shares", in_recipes=False)
    for label, panel in env.panels.items():
        if panel.n is None:
            yield Unused(f"{place}.panels.{label}.seed", f"{place}.panels.{label}.n=null takes all tasks")
