"""The stages of a run: untrained, cloning, the algorithm, the control; each a number of resumable units."""

from __future__ import annotations

import time
from typing import Any

from agentgym_rl.algorithms import Algorithm
from agentgym_rl.algorithms.base import Metrics, Run, Weights
from agentgym_rl.algorithms.bc import Cloning
from agentgym_rl.algorithms.config import AlgorithmConfig
from agentgym_rl.algorithms.control import Control
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run.cache import ClonedCache
from agentgym_rl.engine.run.evaluation import VALIDATION
from agentgym_rl.engine.run.folder import Interrupted
from agentgym_rl.engine.run.metrics import episode_metrics
from agentgym_rl.engine.run.run import EngineRun
from agentgym_rl.eval import timeline
from agentgym_rl.eval.diagnosis import diagnose
from agentgym_rl.eval.evaluation.rules import digests
from agentgym_rl.eval.step_line import step_line
from agentgym_rl.eval.units import UNITS

UNTRAINED = "untrained"


class Untrained(Algorithm[AlgorithmConfig]):
    """The weights as loaded: evaluated, not trained."""

    units = 0

    def unit(self, run: Run, number: int) -> Metrics:
        raise AssertionError("it has no unit")


def stage_names(run: Resolved) -> list[str]:
    """The stages of a run, in order."""
    config, online = run.config, run.algorithm.units > 0
    names = [UNTRAINED] if config.run.evaluate_untrained else []
    names += [Cloning.stage] if config.cloning.epochs else []
    names += [config.algorithm.name] if online else []
    names += [Control.stage] if online and config.run.control else []
    return names


class Stages:
    """Runs the stages of a run from wherever its state stands."""

    def __init__(self, run: EngineRun, cache: ClonedCache | None) -> None:
        self.run, self.cache = run, cache
        self.names = stage_names(run.resolved)
        self.reported: set[tuple[str, str]] = set()
        """Stage and rule of what was found to be wrong."""

    def complete(self) -> None:
        """Run what is left.

        Raises:
            Interrupted: after saving, when the user asked to stop.
        """
        with self.run.saver.writer:
            self.run.resume()
            while self.run.state.stage < len(self.names):
                self._stage(self.names[self.run.state.stage])

    def _algorithm(self, name: str) -> Algorithm[Any]:
        """The algorithm of a stage."""
        config, state = self.run.config, self.run.state
        if name == UNTRAINED:
            return Untrained(AlgorithmConfig(name=name))
        if name == Cloning.stage:
            return Cloning(config.cloning)
        if name == Control.stage:
            assert state.learnt is not None, "the control repeats an earlier stage"
            return Control(Weights.from_dict(state.learnt))
        return self.run.resolved.algorithm

    def _stage(self, name: str) -> None:
        run, state, config = self.run, self.run.state, self.run.config.run
        if name == Cloning.stage and state.unit == 0 and self.cache is not None and self.cache.recall(run):
            return
        algorithm, run.stage = self._algorithm(name), name
        run.algorithm = algorithm
        started = time.monotonic() - state.stage_wall_s
        if state.unit == 0:
            run.begin_stage()
            algorithm.begin(run)
            self._save(name, algorithm)
        elif state.algorithm is not None:
            algorithm.load_state_dict(run.folder.load_algorithm(state.algorithm))
        run.prepare(algorithm.needs(algorithm.config))
        for number in range(state.unit, algorithm.units):
            if self._spent(name, algorithm):
                break
            run.bar(name, number, algorithm.units)
            self._unit(name, algorithm, number)
            state.unit = number + 1
            state.stage_wall_s = time.monotonic() - started
            last = state.unit == algorithm.units or self._spent(name, algorithm)
            if not last and config.eval_every and state.unit % config.eval_every == 0:
                run.evaluate(name, VALIDATION if run.panels.of_role(VALIDATION) else None)
            due = config.save_every and state.unit % config.save_every == 0
            stops = run.stop()
            if stops or last or due or algorithm.ends_phase(number):
                self._save(name, algorithm)  # after the last one before its evaluation, which may take long
            if stops:
                raise Interrupted
        run.bar(name, state.unit, algorithm.units)
        self._finish(name, algorithm, time.monotonic() - started)
        if run.stop() and state.stage < len(self.names):
            raise Interrupted

    def _save(self, name: str, algorithm: Algorithm[Any]) -> None:
        """Write the run as it is now."""
        self.run.state.prompts = {
            env: text for env in self.run.config.envs if (text := self.run.resolved.prompt(env, algorithm))
        }
        self.run.saver.save(name, algorithm.state_dict())

    def _spent(self, name: str, algorithm: Algorithm[Any]) -> bool:
        """True if a step of the algorithm's stage has spent the run's budget."""
        config, state = self.run.config, self.run.state
        ends_step = state.unit % (algorithm.units // max(1, algorithm.steps)) == 0
        return name == config.algorithm.name and ends_step and config.budget.spent(state.tokens, state.stage_updates)

    def _tell_budget(self) -> None:
        """Say what is left of a budget that the steps did not spend."""
        state, budget = self.run.state, self.run.config.budget
        tokens, updates = (budget.tokens, state.tokens), (budget.updates, state.stage_updates)
        for key, (most, spent) in {"tokens": tokens, "updates": updates}.items():
            if most is not None and spent < most:
                self.run.say(f"budget: {spent:,} of {most:,} {key}; more algorithm.steps would spend the rest")

    def _unit(self, name: str, algorithm: Algorithm[Any], number: int) -> None:
        """One unit, with its metrics, its episodes and how its time was spent."""
        run, state, begun = self.run, self.run.state, time.monotonic()
        run.begin_unit(name, algorithm.units)
        try:
            unit_metrics = algorithm.unit(run, number)
        finally:
            run.end_unit()
        episodes = run.episodes
        state.episodes += len(episodes)
        state.stage_episodes += len(episodes)
        state.count(episodes)
        state.tokens += sum(episode.prompt_tokens + episode.response_tokens for episode in episodes)
        seconds = time.monotonic() - begun - run.evaluation_s
        state.wall_s += seconds
        state.stage_training_s += seconds
        metrics = {f"stage/{name}": number + 1, UNITS: algorithm.units, **run.metrics, **unit_metrics, **state.spent()}
        if episodes:
            metrics |= run.mixture.metrics() | run.curriculum.metrics()
            if from_start := [episode for episode in episodes if not episode.prefix_turns]:
                metrics |= episode_metrics(from_start, run.resolved.whole)
            by_phase = run.trainer.timing_raw
            if "gen" in by_phase:  # not where all were in the journal of a killed unit
                metrics["rollout/episodes_per_s"] = len(episodes) / by_phase["gen"]
            step = f"step{state.global_step:06d}"
            run.saver.store_episodes(step, episodes)
            if run.config.profile and any(episode.began for episode in episodes):
                timeline.write(run.folder.path / "timeline" / f"{step}.html", step, episodes)
        run.log.log(state.global_step, metrics)
        self._report()

    def _report(self) -> None:
        """Say how the unit went that was logged last, and once in a stage why it learns nothing."""
        run = self.run
        rows = list(run.log.recent)
        run.say(step_line(rows))
        for finding in diagnose(rows):
            if (finding.stage, finding.rule) not in self.reported:
                self.reported.add((finding.stage, finding.rule))
                run.say(str(finding))
                run.log.alert(finding)

    def _finish(self, name: str, algorithm: Algorithm[Any], seconds: float) -> None:
        """Evaluate and save what a stage led to. A run that is stopped meanwhile goes on with the evaluation."""
        run, state = self.run, self.run.state
        if name != UNTRAINED and algorithm.units and not state.updates:
            run.say(f"{name}: nothing was learned; the weights are those that the stage began with")
        panels = run.evaluate(name, stoppable=True)
        state.best = run.panels.validation_success(panels)
        run.saver.save_files(name, algorithm.state_dict())
        state.results.append(
            {
                "name": name,
                "panels": panels,
                "prompts": digests(state.prompts),
                "episodes": state.stage_episodes,
                "tokens": state.tokens - sum(stage.get("tokens", 0) for stage in state.results),
                "updates": state.stage_updates,
                "steps": algorithm.steps,
                "wall_s": round(seconds, 1),
                "checkpoint": state.checkpoint,
            }
        )
        if state.checkpoint is not None:
            state.stage_ends.append(state.checkpoint)
        if name not in (UNTRAINED, Cloning.stage, Control.stage):
            state.end_of_algorithm(state.unit)
            self._tell_budget()
        state.stage, state.unit, state.stage_episodes = state.stage + 1, 0, 0
        state.stage_wall_s = state.stage_training_s = 0.0
        run.saver.save_state()
        if name == Cloning.stage and self.cache is not None:
            self.cache.keep(run)
