"""The weights of a run: what training workers keep of them, and when vLLM servers get them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from verl.trainer.ppo.utils import Role
from verl.utils.debug import marked_timer

from agentgym_rl.algorithms.base import Metrics
from agentgym_rl.algorithms.model import POLICY
from agentgym_rl.engine.recipe.checkpoint import place_of
from agentgym_rl.engine.verl.settings import Settings
from agentgym_rl.engine.verl.sync_probe import SyncProbe

BASE, PRESENT = ".base", ".present"
"""Weights that the workers keep beside those of other models: as loaded, and the policy's while others are used."""


class Servers:
    """The vLLM servers that roll out; they share memory with the training workers."""

    def __init__(self, manager: Any, handles: Sequence[Any]) -> None:
        """
        Args:
            manager: verl's manager of their weights.
            handles: each of them, a Ray actor.
        """
        self.manager, self.handles = manager, list(handles)

    def send(self, step: int) -> None:
        """Give them the weights of a global step; they wake up."""
        self.manager.update_weights(step)

    def sleep(self) -> None:
        """They give their memory to the workers."""
        self.manager.sleep_replicas()


class PausedServers(Servers):
    """Their episodes stop for an update, and go on afterwards."""

    def sleep(self) -> None:
        self.manager.abort_replicas()
        super().sleep()

    def send(self, step: int) -> None:
        super().send(step)
        self.manager.resume_generation_replicas()


class SeparateServers(Servers):
    """They have memory of their own."""

    def sleep(self) -> None:
        return None


class Weights:
    """The weights of the policy, of other models and of the critic where there is one, on workers and servers."""

    def __init__(self, verl: Any, settings: Settings) -> None:
        """
        Args:
            verl: verl's trainer, with the groups of workers that it has started.
        """
        self.verl, self.settings = verl, settings
        self.pristine = self.synced = True
        """``pristine``: nothing has changed the weights as loaded; ``synced``: the servers have the present ones."""
        self.sync_metrics: Metrics = {}
        """Of the latest sync that was looked at."""
        self.models: dict[str, bool] = {}
        """The models beside the policy, and whether each learns."""
        self._based = False
        self._critic_base: str | None = None

    @cached_property
    def servers(self) -> Servers:
        servers: Servers = self.verl.servers()
        return servers

    def begin(self) -> None:
        """The servers have the weights as loaded."""
        rollout = self.settings.config.actor_rollout_ref.rollout
        self.probe = SyncProbe.begin(self.verl.tokenizer, rollout, self.servers.handles)

    def sync(self, step: int | None = None) -> None:
        """Send the weights to the vLLM servers, as those after a global step; None is the present one.

        Raises:
            WeightsNotSynced: ``engine.verify_sync`` asks for a comparison, and a server has other weights.
        """
        due = self.probe.due(self.settings.verify_sync)
        # while the servers leave it the memory
        learner = self.probe.learner(self.verl.actor_rollout_wg) if due else None
        with marked_timer("update_weights", self.verl.timing_raw):
            self.servers.send(self.verl.global_steps if step is None else step)
        self.synced = True
        if learner is not None:
            self.sync_metrics = self.probe.compare(learner, self.probe.servers(self.servers.handles))

    def ensure_synced(self, step: int | None = None) -> None:
        """Send the weights to the servers, unless they have them."""
        if not self.synced:
            self.sync(step)

    def sleep(self) -> None:
        """The vLLM servers give their memory to the workers until :meth:`sync`."""
        if self.synced:
            self.servers.sleep()
            self.synced = False

    def reset_optimizer(self) -> None:
        """Forget the optimizer's moments."""
        self.verl.actor_rollout_wg.reset_optimizer()

    def save(self) -> str:
        """Write a checkpoint of the current step; returns its folder name."""
        self.verl._save_checkpoint()
        name = f"global_step_{self.verl.global_steps}"
        for model in (model for model, trained in self.models.items() if trained):
            folder = place_of(Path(self.settings.config.trainer.default_local_dir) / name, model)
            with self.using(model, learn=True):
                self.verl.actor_rollout_wg.save_checkpoint(str(folder), global_step=self.verl.global_steps)
        return name

    def remember_base(self, folder: Path) -> None:
        """Keep the weights as loaded, so that :meth:`restore` can bring them back.

        The policy's stay in the workers' memory; a critic's, which only later runs need, go to a folder.
        """
        self.verl.actor_rollout_wg.save_model_to_cpu(BASE)
        self._based = True
        if self.verl.use_critic:
            self._critic_base = str(folder / "critic")
            self.verl.critic_wg.save_checkpoint(self._critic_base)

    # models beside the policy

    def begin_models(self) -> None:
        """Keep none of those that an earlier stage had."""
        for model in self.models:
            self.verl.actor_rollout_wg.clear_cpu_model(model)
        self.models = {}

    def begin_model(self, name: str, place: Path | None, *, trained: bool, optimizer: bool = False) -> None:
        """Keep another model.

        Args:
            place: where it begins, see :meth:`using`.
            optimizer: the place also has its optimizer's state.
        """
        self.models[name] = trained
        self.sleep()
        with self._instead(place, optimizer=True):
            self._put_by(name, optimizer=optimizer)

    def begin_as_policy(self, name: str, *, trained: bool) -> None:
        """Keep another model that begins as the policy is now, without state of an optimizer."""
        self.models[name] = trained
        self.verl.actor_rollout_wg.save_model_to_cpu(name)

    @contextmanager
    def using(self, by: str | Path | None, *, learn: bool = False) -> Iterator[None]:
        """Inside, the workers have other weights than the policy's, which must not be synchronised.

        Args:
            by: name of a model; a folder, of a policy in a checkpoint or of a Hugging Face model; None for the weights
                as loaded.
            learn: with the model's optimizer, and what it has learned is kept.

        Raises:
            ValueError: there is no such model, or it does not learn, or the weights as loaded are not kept.
        """
        if by == POLICY or (by is None and self.pristine):
            yield
            return
        if isinstance(by, str) and by not in self.models:
            raise ValueError(
                f"no model {by!r} gives log-probabilities; Algorithm.needs names {sorted(self.models) or 'none'}"
            )
        if isinstance(by, str) and learn and not self.models[by]:
            raise ValueError(f"the model {by!r} does not learn; say so in Algorithm.needs: Model(..., trained=True)")
        if by is None and not self._based:
            raise ValueError("the weights as loaded are kept where Algorithm.needs says loaded_weights=True")
        with self._instead(by, optimizer=learn or not isinstance(by, str)):
            try:
                yield
            finally:
                if learn:
                    self._put_by(str(by), optimizer=True)

    @contextmanager
    def _instead(self, by: str | Path | None, *, optimizer: bool) -> Iterator[None]:
        """Inside, other weights take the place of the policy's; ``optimizer`` says whether also the optimizer's state.

        A place brings its own state of the optimizer, or none.
        """
        self._put_by(PRESENT, optimizer=optimizer)
        try:
            if isinstance(by, str):
                self._take(by, optimizer=optimizer)
            else:
                self._load(by)
            yield
        finally:
            self._take(PRESENT, optimizer=optimizer)
            self.verl.actor_rollout_wg.clear_cpu_model(PRESENT)

    def _put_by(self, name: str, *, optimizer: bool) -> None:
        self.verl.actor_rollout_wg.save_model_to_cpu(name)
        if optimizer:
            self.verl.actor_rollout_wg.put_moments_by(name)

    def _take(self, name: str, *, optimizer: bool) -> None:
        self.verl.actor_rollout_wg.restore_model_from_cpu(name)
        if optimizer:
            self.verl.actor_rollout_wg.take_moments(name)

    def _load(self, place: Path | None) -> None:
        workers = self.verl.actor_rollout_wg
        if place is None:
            workers.restore_model_from_cpu(BASE)
        elif (place / "config.json").is_file():
            workers.load_pretrained(str(place))
        else:
            workers.load_checkpoint(local_path=str(place))

    # the policy's

    def start_critic(self, folder: Path | None) -> None:
        """Start the critic from the policy of a checkpoint folder, or, without one, from that as loaded, as it does at
        the launch; its head is drawn by the run's seed.
        """
        policy = None if folder is None else str(folder / "actor")
        self.verl.critic_wg.start_from(policy, self.verl.config.data.seed)

    def restore_critic(self) -> None:
        """Bring back the critic as loaded; the policy is restored when a stage asks for it."""
        if self.verl.use_critic:
            assert self._critic_base is not None, "the critic as loaded was not remembered"
            self.verl.critic_wg.load_checkpoint(local_path=self._critic_base)

    def restore(self, folder: Path | None) -> None:
        """Bring back weights and optimizer of a checkpoint folder, or the weights as loaded, in place.

        Weights as loaded come without optimizer state; they must be remembered, unless nothing has changed them yet.
        """
        if folder is None and self.pristine:
            return
        self.sleep()
        self._load(None if folder is None else folder / "actor")
        if folder is None:
            self.reset_optimizer()
            return
        self.pristine = False
        if self.verl.use_critic and (folder / str(Role.Critic)).is_dir():
            self.verl.critic_wg.load_checkpoint(local_path=str(folder / str(Role.Critic)))
