"""Models beside the policy: that they are there, and that the workers can take them in the policy's place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentgym_rl.algorithms.model import AS_LOADED, START, Model
from agentgym_rl.engine.recipe.checkpoint import ACTOR, find, is_run
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import RecipeError
from agentgym_rl.rollout.policies.model import check_folder


def folders(models: Mapping[str, Model]) -> dict[str, Path]:
    """Of the models that begin in a folder, the folder by name."""
    return {name: Path(model.start) for name, model in models.items() if model.start not in (START, AS_LOADED)}


def policy_in(folder: Path) -> Path:
    """Where the weights of a policy are: in a checkpoint, which a run or a stage of one stands for; a Hugging Face
    folder itself.

    Raises:
        FileNotFoundError, ValueError: see :func:`agentgym_rl.engine.recipe.checkpoint.find`.
    """
    checkpoint = find(str(folder)).folder if is_run(str(folder)) else folder
    return checkpoint / ACTOR if (checkpoint / ACTOR).is_dir() else checkpoint


def check_places(run: Resolved) -> None:
    """Every folder that a model begins in has weights that the workers can load.

    Raises:
        FileNotFoundError, ValueError: it is neither a checkpoint of as many workers nor a Hugging Face model, or a run
            without one.
        RecipeError: it is a Hugging Face model, and adapters learn.
    """
    models, workers = run.needs.models, run.config.engine.workers * run.config.engine.nodes
    for name, folder in folders(models).items():
        setting = f"{models[name].key or name}={folder}"
        if (policy_in(folder) / f"model_world_size_{workers}_rank_0.pt").is_file():
            continue
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(
                f"{setting} is no checkpoint of {workers} workers and no model; give {START}, {AS_LOADED}, "
                "runs/<name>, runs/<name>/checkpoints/global_step_<n> or a Hugging Face folder"
            )
        check_folder(folder, setting)
        if run.config.model.lora_rank:
            raise RecipeError(f"{setting}: with model.lora_rank, models differ in adapters; give a checkpoint of a run")


def check_alike(run: Resolved, tokenizer: Any, network: Any, skeleton: Callable[[str], Any]) -> None:
    """Every model that begins in a folder has the shapes of the policy, and its vocabulary.

    Args:
        tokenizer: the policy's.
        network: the policy without weights.
        skeleton: makes one of a folder, :func:`agentgym_rl.engine.verl.network.skeleton`.

    Raises:
        RecipeError: it has not; names the folder and a difference.
    """
    from transformers import AutoTokenizer  # takes a second

    shapes, words = _shapes(network), tokenizer.get_vocab()
    for name, folder in folders(run.needs.models).items():
        place = policy_in(folder)
        model = str(place if place == folder else place / "huggingface")
        setting = f"{run.needs.models[name].key or name}={folder}"
        theirs = AutoTokenizer.from_pretrained(model).get_vocab()
        if odd := sorted(word for word in {*words, *theirs} if words.get(word) != theirs.get(word)):
            first = odd[0]
            raise RecipeError(
                f"{setting} has another vocabulary than the policy: {first!r} is {theirs.get(first, 'missing')} there "
                f"and {words.get(first, 'missing')} here; give a model with the policy's tokenizer"
            )
        if (their_shapes := _shapes(skeleton(model))) != shapes:
            first = min(name for name in {*their_shapes, *shapes} if their_shapes.get(name) != shapes.get(name))
            raise RecipeError(
                f"{setting} has another architecture than the policy: {first} is {their_shapes.get(first, 'missing')} "
                f"there and {shapes.get(first, 'missing')} here; give a model of the policy's size"
            )


def _shapes(network: Any) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in network.named_parameters()}
