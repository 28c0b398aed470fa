"""A running engine, shared by one run after the other as long as they can."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from agentgym_rl.engine.recipe.config import EngineConfig, Mode
from agentgym_rl.engine.recipe.verl_keys import KEYS
from agentgym_rl.engine.run.progress import Progress
from agentgym_rl.engine.verl.environment import WHOLE, cores, environment

if TYPE_CHECKING:
    from agentgym_rl.engine.verl.trainer import AgentTrainer


def variables(engine: EngineConfig) -> dict[str, str]:
    """Environment variables of every process of a run."""
    return environment(engine.device.value, engine.workers) | {WHOLE: str(int(engine.mode is Mode.SYNC))} | engine.env


class Session:
    """Starts the engine for the first run, and again only for a run that needs another one."""

    def __init__(self, *, several: bool) -> None:
        """
        Args:
            several: further runs follow, so the weights as loaded are remembered.
        """
        self.several = several
        self._running = ExitStack()
        self._built: dict[str, Any] | None = None
        self._trainer: AgentTrainer | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engine."""
        self._trainer, self._built = None, None
        self._running.close()

    def trainer(self, settings: DictConfig, engine: EngineConfig, progress: Progress, *, base: bool) -> AgentTrainer:
        """A trainer with these settings: the one that runs, if it could have been built from them.

        Args:
            base: the run goes back to the weights as loaded.

        Raises:
            LaunchFailed: a new engine did not come up.
        """
        from agentgym_rl.engine.verl.cluster import cluster

        built = _built_from(settings) | {"environment": variables(engine)}
        if self._trainer is not None and built == self._built:
            progress.say("the engine runs already")
            self._trainer.configure(settings)
            return self._trainer
        if self._trainer is not None:
            progress.say("this run needs another engine")
            self.close()
        run = Path(settings.trainer.default_local_dir).parent
        arguments = (settings, variables(engine), engine.ray_address, engine.start_seconds, run)
        import setuptools  # noqa: F401  # here, for while it replaces distutils, a second thread that imports it fails

        with progress.waiting("starting the engine"):
            with ThreadPoolExecutor(1, "import") as pool:  # verl's trainer takes seconds to import, Ray to start
                launch = pool.submit(import_module, "agentgym_rl.engine.verl.launch")
                self._running.enter_context(cluster(*arguments))
            self._trainer = launch.result().launch(settings, engine.start_seconds, progress.say)
        if engine.device == "cpu":
            share = max(1, cores() // engine.workers)
            self._trainer.actor_rollout_wg.set_threads(share if engine.threads is None else engine.threads)
        self._built = built
        if base or self.several:
            base_folder = self._running.enter_context(TemporaryDirectory(prefix="agentgym_rl_base_"))
            self._trainer.weights.remember_base(Path(base_folder))
        return self._trainer


def _built_from(settings: DictConfig) -> dict[str, Any]:
    """The keys that workers and servers are built from: all that are not read in each step."""
    built: dict[str, Any] = OmegaConf.to_container(settings, resolve=True)  # type: ignore[assignment]
    for key in KEYS.read_every_step:
        *path, leaf = key.split(".")
        node = built
        for part in path:
            node = node[part]
        node.pop(leaf, None)
    if not settings.critic.enable:
        built["critic"] = None
    return built
