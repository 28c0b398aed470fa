"""The stages of a run: untrained, cloning, the algorithm, the control; each a number of resumable units."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from agentgym_rl.algorithms.agentevol import Pool, keep_successes
from agentgym_rl.algorithms.bc import learning_rate
from agentgym_rl.algorithms.mixture import FixedMixture
from agentgym_rl.data.episode import Episode
from agentgym_rl.data.panels import Panel
from agentgym_rl.engine.config import Config
from agentgym_rl.engine.dataset import row
from agentgym_rl.engine.metrics_log import MetricsLog
from agentgym_rl.engine.run_folder import Interrupted, RunFolder, State
from agentgym_rl.engine.trainer import AgentTrainer
from agentgym_rl.envs import Task
from agentgym_rl.eval.score import DECODINGS, score
from agentgym_rl.rollout.supervised import Example, with_observations

Bar = Callable[[str, int, int], None]
"""Shows progress: what, how many done, of how many."""


def stage_names(config: Config) -> list[str]:
    """The stages a configuration asks for, in order."""
    names = ["untrained"] if config.run.evaluate_untrained else []
    names += ["bc"] if config.bc.epochs else []
    names += [config.algorithm.name] if config.algorithm.name != "bc" and config.algorithm.steps else []
    names += ["control"] if config.run.control and config.algorithm.name != "bc" else []
    return names


class Stages:
    """Runs the stages of a run from wherever its state stands."""

    def __init__(
        self,
        config: Config,
        trainer: AgentTrainer,
        folder: RunFolder,
        state: State,
        log: MetricsLog,
        *,
        mixture: FixedMixture,
        panels: dict[str, dict[str, Panel]],
        experts: Sequence[Example],
        bar: Bar,
        stop: Callable[[], bool],
    ) -> None:
        self.config, self.trainer, self.folder, self.state, self.log = config, trainer, folder, state, log
        self.mixture, self.panels = mixture, panels
        self.experts = [with_observations(example, config.bc.observation_weight) for example in experts]
        self.bar, self.stop = bar, stop
        self.pool = Pool(config.algorithm.accumulate)
        self.pool.load_state_dict(folder.load_pool(state.pool))

    def run(self) -> None:
        """Run what is left.

        Raises:
            Interrupted: after saving, when ``stop`` says so.
        """
        names = stage_names(self.config)
        if self.state.checkpoint is not None:
            self.trainer.load(str(self.folder.checkpoints / self.state.checkpoint))
        self.trainer.global_steps = self.state.global_step
        while self.state.stage < len(names):
            self._stage(names[self.state.stage])

    def _stage(self, name: str) -> None:
        units, unit = self._units(name)
        started = time.monotonic() - self.state.stage_wall_s
        if self.state.unit == 0:
            self._enter(name)
        for number in range(self.state.unit, units):
            self.bar(name, number, units)
            begun = time.monotonic()
            self.trainer.global_steps = self.state.global_step = self.state.global_step + 1
            metrics, episodes = unit(number)
            self._count(name, metrics, episodes, time.monotonic() - begun)
            self.state.unit = number + 1
            self.state.stage_wall_s = time.monotonic() - started
            last = number + 1 == units
            every = self.config.run
            if not last and every.eval_every and (number + 1) % every.eval_every == 0:
                self._evaluate(name)
            if self.stop() or (not last and every.save_every and (number + 1) % every.save_every == 0):
                self._save()
            if self.stop():
                raise Interrupted
        self.bar(name, units, units)
        result = self._evaluate(name)
        self.state.results.append(
            {
                "name": name,
                **result,
                "episodes": self.state.stage_episodes,
                "steps": units,
                "wall_s": round(time.monotonic() - started, 1),
            }
        )
        if name == "bc" or self.state.cloned is None:
            self.state.cloned = f"global_step_{self.state.global_step}"
        self.state.stage, self.state.unit, self.state.stage_wall_s, self.state.stage_episodes = (
            self.state.stage + 1,
            0,
            0.0,
            0,
        )
        self._save()
        if self.stop() and self.state.stage < len(stage_names(self.config)):
            raise Interrupted

    def _units(self, name: str) -> tuple[int, Callable[[int], tuple[dict[str, float], list[Episode]]]]:
        algorithm = self.config.algorithm
        if name == "untrained":
            return 0, self._clone
        if name == "bc":
            return self.config.bc.epochs, self._clone
        if name == "control":
            return len(self.state.updates), self._control
        return algorithm.steps, self._evolve if name == "agentevol" else self._reinforce

    def _enter(self, name: str) -> None:
        """What a stage starts from."""
        if name == "control":
            self.trainer.load(str(self.folder.checkpoints / str(self.state.cloned)))
        if name not in ("untrained", "bc"):
            self.trainer.forget_optimizer(self.config.algorithm.lr)

    # units

    def _clone(self, epoch: int) -> tuple[dict[str, float], list[Episode]]:
        bc = self.config.bc
        lr = learning_rate(bc.lr, epoch, bc.epochs)
        metrics = self.trainer.imitate(self.experts, batch=bc.batch, lr=lr, seed=f"{self.config.seed}:bc:{epoch}")
        self.trainer.publish()  # every epoch: an evaluation may follow any of them
        return metrics, []

    def _evolve(self, number: int) -> tuple[dict[str, float], list[Episode]]:
        algorithm = self.config.algorithm
        rows = self._training_rows(self.state.global_step)
        rows = [
            one | {"index": index} for index, one in enumerate(one for one in rows for _ in range(algorithm.samples))
        ]
        episodes, examples = self._explore(rows, f"agentevol round {number + 1}: explore")
        counted = [episode for episode in episodes if episode.ending.counts]
        kept = keep_successes(counted, algorithm.max_per_task)
        weight = self.config.bc.observation_weight
        self.pool.add([with_observations(examples[index], weight) for index in kept])
        data = [*self.experts, *self.pool.examples]
        metrics: dict[str, float] = {"agentevol/kept": len(kept), "agentevol/pool": len(self.pool.examples)}
        updates = 0
        for epoch in range(algorithm.epochs):
            self.bar(f"agentevol round {number + 1}: learn", epoch, algorithm.epochs)
            lr = learning_rate(algorithm.lr, epoch, algorithm.epochs)
            seed = f"{self.config.seed}:evolve:{number}:{epoch}"
            metrics |= self.trainer.imitate(data, batch=algorithm.minibatch, lr=lr, seed=seed)
            updates += int(metrics["supervised/updates"])
        self.trainer.publish()
        self.state.updates.append(updates)
        return metrics, episodes

    def _reinforce(self, number: int) -> tuple[dict[str, float], list[Episode]]:
        algorithm = self.config.algorithm
        self.trainer.rows = self._training_rows
        metrics, episodes = self.trainer.reinforce(algorithm.lr)
        self.state.updates.append(-(-algorithm.tasks // algorithm.minibatch) * algorithm.epochs)
        return metrics, episodes

    def _control(self, number: int) -> tuple[dict[str, float], list[Episode]]:
        """As many updates as the algorithm's unit took, on expert data alone."""
        algorithm, metrics = self.config.algorithm, {}
        epochs = algorithm.epochs if algorithm.name == "agentevol" else 1
        for epoch in range(epochs):
            wanted = self.state.updates[number]
            share = wanted * (epoch + 1) // epochs - wanted * epoch // epochs
            seed = f"{self.config.seed}:control:{number}:{epoch}"
            lr = learning_rate(algorithm.lr, epoch, epochs)
            batch = algorithm.minibatch if algorithm.name == "agentevol" else self.config.bc.batch
            metrics = self.trainer.imitate(self.experts, batch=batch, lr=lr, seed=seed, updates=share)
        self.trainer.publish()
        return metrics, []

    # rows and episodes

    def _training_rows(self, step: int) -> list[dict[str, Any]]:
        tasks = self.mixture.draw(step, self.config.algorithm.tasks)
        return [self._row(index, task, tags={"split": "train"}) for index, task in enumerate(tasks)]

    def _row(self, index: int, task: Task, **fields: Any) -> dict[str, Any]:
        return row(index, task, horizon=self.config.worlds[task.env].max_turns, seed=self.config.seed, **fields)

    def _explore(self, rows: list[dict[str, Any]], what: str) -> tuple[list[Episode], list[Example]]:
        rows = [one | {"__rollout_n__": 1} for one in rows]
        return self.trainer.play(rows, validate=False, progress=lambda done, total: self.bar(what, done, total))

    def _count(self, name: str, metrics: dict[str, float], episodes: list[Episode], seconds: float) -> None:
        """Log a unit, its episodes and how its time was spent."""
        self.state.episodes += len(episodes)
        self.state.stage_episodes += len(episodes)
        self.state.wall_s += seconds
        metrics = {**metrics, "run/episodes": self.state.episodes, "run/wall_s": self.state.wall_s}
        if episodes:
            metrics |= self.mixture.metrics() | episode_metrics(episodes)
            metrics["rollout/episodes_per_s"] = len(episodes) / self.trainer.rollout_s
            self.folder.write_episodes(f"step{self.state.global_step:06d}", episodes)
        self.log.log(self.state.global_step, {f"stage/{name}": self.state.unit + 1, **metrics})

    def _evaluate(self, name: str) -> dict[str, Any]:
        """Play every panel, sampled and greedily, with the current weights."""
        rows: list[dict[str, Any]] = []
        for env, by_label in self.panels.items():
            for label, panel in by_label.items():
                samples = {"sampled": self.config.worlds[env].panels[label].samples, "greedy": 1}
                for decoding in DECODINGS:
                    tags = {"panel": label, "decoding": decoding}
                    for item_id in panel.item_ids:
                        for _ in range(samples[decoding]):
                            rows.append(self._row(len(rows), Task.parse(item_id), decoding=decoding, tags=tags))
        if not rows:
            return {"val": {}, "panels": {}}
        begun = time.monotonic()
        rows = [one | {"__rollout_n__": 1} for one in rows]
        episodes, _ = self.trainer.play(
            rows, validate=True, progress=lambda done, total: self.bar(f"{name}: evaluate", done, total)
        )
        self.state.wall_s += time.monotonic() - begun
        self.folder.write_episodes(f"val_{name}_step{self.state.global_step:06d}", episodes)
        panels: dict[str, Any] = {}
        metrics: dict[str, float] = {"run/episodes": self.state.episodes, "run/wall_s": self.state.wall_s}
        for env, by_label in self.panels.items():
            for label in by_label:
                for decoding in DECODINGS:
                    chosen = [
                        episode
                        for episode in episodes
                        if (episode.env, episode.tags["panel"], episode.tags["decoding"]) == (env, label, decoding)
                    ]
                    result = score(chosen)
                    panels.setdefault(label, {}).setdefault(env, {})[decoding] = result.to_dict()
                    prefix = f"val/{label}/{env}/" + ("" if decoding == "sampled" else "greedy_")
                    metrics |= {
                        f"{prefix}success": result.success,
                        f"{prefix}reward": result.reward,
                        f"{prefix}turns": result.turns,
                        f"{prefix}error_rate": result.error_rate,
                    }
        self.log.log(self.state.global_step, {f"stage/{name}": self.state.unit, **metrics})
        first = {env: panels[next(iter(by_label))][env]["sampled"] for env, by_label in self.panels.items() if by_label}
        return {"val": first, "panels": panels}

    def _save(self) -> None:
        """Weights and pool, then the state that names them."""
        self.state.checkpoint = self.trainer.save()
        if self.pool.examples:
            self.state.pool = f"pool_{self.state.global_step:06d}.jsonl"
            self.folder.save_pool(self.state.pool, list(self.pool.state_dict()))
        self.folder.save_state(self.state)
        if self.state.pool is not None:
            self.folder.drop_pools(but=self.state.pool)


def episode_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Training episodes by world, and where their time went (shares of the summed time of model and world)."""
    metrics: dict[str, float] = {}
    for env in sorted({episode.env for episode in episodes}):
        own = [episode for episode in episodes if episode.env == env]
        result = score(own)
        metrics |= {
            f"env/{env}/success": result.success,
            f"env/{env}/reward": result.reward,
            f"env/{env}/turns": result.turns,
            f"env/{env}/error_rate": result.error_rate,
        }
    turns = [turn for episode in episodes for turn in episode.turns]
    model_s, world_s = sum(turn.model_s for turn in turns), sum(turn.world_s for turn in turns)
    metrics["curriculum/horizon"] = max(episode.horizon for episode in episodes)
    metrics["curriculum/cut_share"] = sum(e.ending == "turn_limit" for e in episodes) / len(episodes)
    metrics["rollout/slowest_s"] = max(episode.seconds for episode in episodes)
    if model_s + world_s > 0:
        metrics["rollout/model_wait_frac"] = model_s / (model_s + world_s)
        metrics["rollout/env_wait_frac"] = world_s / (model_s + world_s)
    return metrics
