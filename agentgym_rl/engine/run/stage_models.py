"""The models that a stage has beside the policy, where it begins and where a run goes on in it."""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_rl.algorithms.base import Needs
from agentgym_rl.algorithms.model import AS_LOADED, POLICY, START, Model
from agentgym_rl.engine.recipe.checkpoint import place_of
from agentgym_rl.engine.recipe.models import policy_in
from agentgym_rl.engine.run.folder import RunFolder, State

if TYPE_CHECKING:
    from agentgym_rl.engine.verl.weights import Weights


def check(needs: Needs, state: State, folder: RunFolder) -> None:
    """Before the launch: the weights that the models of a resumed run began with are still there.

    Raises:
        FileNotFoundError: they are gone.
    """
    needed = needs.swapped.keys() & state.starts.keys() if state.learnt is None else ()
    for name in needed:
        _weights(name, needs.swapped[name], state, folder)


def prepare(needs: Needs, state: State, folder: RunFolder, weights: Weights) -> None:
    """Start the critic from the policy, and have the workers keep other models.

    Those that learn go on from their own weights in the run's checkpoint, where the stage has some. A folder stands for
    the weights that it had when the run first asked for them.

    Raises:
        FileNotFoundError: those weights are gone.
    """
    present = folder.checkpoint(state.checkpoint)
    if needs.critic is not None and state.unit == 0:
        weights.start_critic(present)
    weights.begin_models()
    for name, model in needs.swapped.items():
        place, goes_on = _weights(name, model, state, folder)
        if place == policy_of(folder, state.checkpoint):
            weights.begin_as_policy(name, trained=model.trained)
        else:
            weights.begin_model(name, place, trained=model.trained, optimizer=goes_on)


def policy_of(folder: RunFolder, checkpoint: str | None) -> Path | None:
    """Where the policy of a checkpoint is; None for the weights as loaded."""
    place = folder.checkpoint(checkpoint)
    return None if place is None else place_of(place, POLICY)


def _weights(name: str, model: Model, state: State, folder: RunFolder) -> tuple[Path | None, bool]:
    """Where the weights of a model are, as the policy's, and whether it goes on from its own in a checkpoint."""
    present = folder.checkpoint(state.checkpoint)
    resumed = None if present is None or not state.unit else place_of(present, name)
    if resumed is not None and resumed.is_dir():
        return resumed, True
    return _start(name, model.start, state, folder), False


def _start(name: str, start: str, state: State, folder: RunFolder) -> Path | None:
    """Where a model begins, as the policy's."""
    if start in (START, AS_LOADED):
        return policy_of(folder, state.origin if start == START else None)
    if name not in state.starts:
        state.starts[name] = os.path.relpath(policy_in(Path(start).resolve()), folder.path)
    place = (folder.path / state.starts[name]).resolve()
    if not place.is_dir():
        raise FileNotFoundError(
            f"{start} stood for {place} when this run began with it, which is gone; bring it back, or begin a new run"
        )
    return place
