"""The stages of a run: untrained, cloning, the algorithm, the control; each a number of resumable units."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from agentgym_rl.algorithms import ALGORITHMS
from agentgym_rl.algorithms.bc import learning_rate
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.engine.recipe.config import Config
from agentgym_rl.engine.run.cache import ClonedCache
from agentgym_rl.engine.run.evaluation import VALIDATION, evaluate, labels, validation_success
from agentgym_rl.engine.run.evolution import Evolution
from agentgym_rl.engine.run.folder import Interrupted
from agentgym_rl.engine.run.work import Work
from agentgym_rl.eval import timeline
from agentgym_rl.eval.score import score

Unit = Callable[[int], tuple[dict[str, float], list[Episode]]]


def stage_names(config: Config) -> list[str]:
    """The stages a configuration asks for, in order."""
    names = ["untrained"] if config.run.evaluate_untrained else []
    names += ["bc"] if config.bc.epochs else []
    names += [config.algorithm.name] if config.algorithm.name != "bc" and config.algorithm.steps else []
    names += ["control"] if config.run.control and config.algorithm.name != "bc" else []
    return names


class Stages:
    """Runs the stages of a run from wherever its state stands."""

    def __init__(self, work: Work, cache: ClonedCache | None) -> None:
        self.work, self.cache = work, cache
        self.config, self.trainer, self.state = work.config, work.trainer, work.state
        self.evolution = Evolution(work) if work.config.algorithm.name == "agentevol" else None

    def run(self) -> None:
        """Run what is left.

        Raises:
            Interrupted: after saving, when ``stop`` says so.
        """
        names = stage_names(self.config)
        if self.state.mixture is not None:
            self.work.mixture.load_state_dict(self.state.mixture)
        if self.state.curriculum is not None:
            self.work.curriculum.load_state_dict(self.state.curriculum)
        self.trainer.global_steps = self.state.global_step
        self.trainer.restore(self.work.folder.checkpoint(self.state.checkpoint))
        while self.state.stage < len(names):
            self._stage(names[self.state.stage])

    def _stage(self, name: str) -> None:
        state = self.state
        if name == "bc" and state.unit == 0 and self.cache is not None and self.cache.recall(self.work):
            return
        units, unit = self._units(name)
        started = time.monotonic() - state.stage_wall_s
        if state.unit == 0:
            self._enter(name)
            if name == "agentevol":
                self._save(weights=False)  # an exploration resumes from here in its middle
        every = self.config.run
        for number in range(state.unit, units):
            self.work.bar(name, number, units)
            begun = time.monotonic()
            self.trainer.global_steps = state.global_step = state.global_step + 1
            metrics, episodes = unit(number)
            self._count(name, metrics, episodes, time.monotonic() - begun)
            state.unit = number + 1
            state.stage_wall_s = time.monotonic() - started
            last = number + 1 == units
            if not last and every.eval_every and (number + 1) % every.eval_every == 0:
                evaluate(self.work, name, VALIDATION if labels(self.work, VALIDATION) else None)
            due = every.save_every and (number + 1) % every.save_every == 0
            rounds = self.evolution if name == "agentevol" else None
            if self.stop() or (not last and (due or (rounds is not None and rounds.ends_phase(number)))):
                self._save(weights=rounds is None or rounds.learns(number))
            if self.stop():
                raise Interrupted
        self.work.bar(name, units, units)
        self._finish(name, units, time.monotonic() - started)
        if self.stop() and state.stage < len(stage_names(self.config)):
            raise Interrupted

    def _finish(self, name: str, units: int, seconds: float) -> None:
        """Evaluate and save what a stage led to."""
        state = self.state
        panels = evaluate(self.work, name)
        if labels(self.work, VALIDATION):
            state.best = validation_success(self.work, panels)
        state.results.append(
            {
                "name": name,
                "panels": panels,
                "episodes": state.stage_episodes,
                "steps": self.config.algorithm.steps if name == "agentevol" else units,
                "wall_s": round(seconds, 1),
            }
        )
        if name == "bc" or state.cloned is None:
            state.cloned = f"global_step_{state.global_step}"
        state.stage, state.unit, state.stage_wall_s, state.stage_episodes = state.stage + 1, 0, 0.0, 0
        self._save()
        if name == "bc" and self.cache is not None:
            self.cache.keep(self.work)

    def stop(self) -> bool:
        return self.work.stop()

    def _units(self, name: str) -> tuple[int, Unit]:
        algorithm = self.config.algorithm
        if name == "untrained":
            return 0, self._clone
        if name == "bc":
            return self.config.bc.epochs, self._clone
        if name == "control":
            return len(self.state.updates), self._control
        if self.evolution is not None:
            return self.evolution.units, self.evolution.unit
        return algorithm.steps, self._prefer if ALGORITHMS[name].preferences else self._reinforce

    def _enter(self, name: str) -> None:
        """What a stage starts from."""
        algorithm = self.config.algorithm
        if name == "control":
            restarted = algorithm.name == "agentevol" and algorithm.restart_from == "base"
            self.trainer.restore(None if restarted else self.work.folder.checkpoint(self.state.cloned))
        if name not in ("untrained", "bc"):
            self.trainer.forget_optimizer(algorithm.lr)

    # units

    def _clone(self, epoch: int) -> tuple[dict[str, float], list[Episode]]:
        bc = self.config.bc
        lr = learning_rate(bc.lr, epoch, bc.epochs)
        metrics = self.trainer.imitate(self.work.experts, batch=bc.batch, lr=lr, seed=f"{self.config.seed}:bc:{epoch}")
        if epoch + 1 == bc.epochs or self.config.run.eval_every:
            self.trainer.publish()
        return metrics, []

    def _reinforce(self, number: int) -> tuple[dict[str, float], list[Episode]]:
        algorithm = self.config.algorithm
        self.trainer.rows = lambda wanted, other: self.work.training_rows(wanted, wanted - number, other)
        # verl counts the critic's warm-up from the first step of all
        self.trainer.config.trainer.critic_warmup = self.state.global_step - number + algorithm.critic_warmup
        metrics, episodes = self.trainer.reinforce(algorithm.lr, number, algorithm.steps)
        self.work.learn(episodes)
        updates = -(-algorithm.tasks // algorithm.minibatch) * algorithm.epochs
        if number < algorithm.critic_warmup:
            updates = 0
        self.state.updates.append([updates, algorithm.lr, self.config.bc.batch])
        return metrics, episodes

    def _prefer(self, number: int) -> tuple[dict[str, float], list[Episode]]:
        algorithm, step = self.config.algorithm, self.state.global_step
        rows = self.work.training_rows(number)
        played = self.trainer.play(rows, validate=False, progress=self._progress("dpo: play"))
        counted = [(episode, samples[0]) for episode, samples in played if samples]
        metrics = self.trainer.prefer(
            [episode for episode, _ in counted],
            [example for _, example in counted],
            beta=algorithm.beta,
            pairs_per_task=algorithm.pairs_per_task,
            batch=algorithm.minibatch,
            epochs=algorithm.epochs,
            lr=algorithm.lr,
            seed=f"{self.config.seed}:dpo:{step}",
        )
        self.trainer.publish()
        episodes = [episode for episode, _ in played]
        self.work.learn(episodes)
        self.state.updates.append([metrics["dpo/updates"], algorithm.lr, self.config.bc.batch])
        return metrics, episodes

    def _control(self, number: int) -> tuple[dict[str, float], list[Episode]]:
        """As many updates as the algorithm's unit took, at its learning rate, on expert data alone."""
        updates, lr, batch = self.state.updates[number]
        metrics: dict[str, float] = {}
        if updates:  # a unit may have found nothing to learn from
            metrics = self.trainer.imitate(
                self.work.experts,
                batch=int(batch),
                lr=lr,
                seed=f"{self.config.seed}:control:{number}",
                updates=int(updates),
            )
        if number + 1 == len(self.state.updates):
            self.trainer.publish()
        return metrics, []

    # records

    def _progress(self, what: str) -> Callable[[int, int], None]:
        return lambda done, total: self.work.bar(what, done, total)

    def _count(self, name: str, metrics: dict[str, float], episodes: list[Episode], seconds: float) -> None:
        """Log a unit, its episodes and how its time was spent."""
        state = self.state
        state.episodes += len(episodes)
        state.stage_episodes += len(episodes)
        state.tokens += sum(episode.prompt_tokens + episode.response_tokens for episode in episodes)
        state.wall_s += seconds
        metrics = {**metrics, **state.spent()}
        if episodes:
            metrics |= self.work.mixture.metrics() | episode_metrics([one for one in episodes if not one.prefix_turns])
            metrics["rollout/episodes_per_s"] = len(episodes) / self.trainer.rollout_s
            self.work.folder.write_episodes(f"step{state.global_step:06d}", episodes)
            if self.config.profile and any(episode.began for episode in episodes):
                timeline.write(self.work.folder.path, f"step{state.global_step:06d}", episodes)
        self.work.log.log(state.global_step, {f"stage/{name}": state.unit + 1, **metrics})

    def _save(self, weights: bool = True) -> None:
        """Weights where they changed, then the state that names them; last, what no state needs any more goes."""
        state = self.state
        if weights:
            state.checkpoint = self.trainer.save()
        state.mixture = self.work.mixture.state_dict()
        state.curriculum = self.work.curriculum.state_dict()
        self.work.folder.save_state(state)
        self.work.folder.drop_leftovers(state)


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
            f"env/{env}/horizon": max(episode.horizon for episode in own),
            f"env/{env}/cut_share": cut_share(own),
        }
    turns = [turn for episode in episodes for turn in episode.turns]
    model_s, world_s = sum(turn.model_s for turn in turns), sum(turn.world_s for turn in turns)
    metrics["curriculum/horizon"] = max(episode.horizon for episode in episodes)
    metrics["curriculum/cut_share"] = cut_share(episodes)
    metrics["rollout/slowest_s"] = max(episode.seconds for episode in episodes)
    if model_s + world_s > 0:
        metrics["rollout/model_wait_frac"] = model_s / (model_s + world_s)
        metrics["rollout/env_wait_frac"] = world_s / (model_s + world_s)
    return metrics


def cut_share(episodes: Sequence[Episode]) -> float:
    """Share of episodes that the turn limit ended; where it is high, the horizon binds."""
    return sum(episode.ending is Ending.TURN_LIMIT for episode in episodes) / len(episodes)
