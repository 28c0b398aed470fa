"""The evaluation panels of a run: their rows, and the scores of their episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from agentgym_rl.algorithms.base import Metrics
from agentgym_rl.data.episode import Episode
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.verl.dataset import row
from agentgym_rl.envs import Task
from agentgym_rl.eval.score import DECODINGS, Score, score
from agentgym_rl.rollout.counted import Count, check_counted

VALIDATION = "validation"

Scores = dict[str, dict[str, Any]]
"""``Score.to_dict()`` by label, environment and decoding."""


@dataclass(frozen=True, slots=True)
class RunPanels:
    """The panels of a run: what of them is rolled out, and how it is scored."""

    run: Resolved

    def of_role(self, role: str | None) -> list[tuple[str, str]]:
        """Environment and label of the panels with a role; all of them for None."""
        return [
            (env, label)
            for env, panels in self.run.panels.items()
            for label in panels
            if role is None or self.run.config.envs[env].panels[label].role == role
        ]

    def rows(self, role: str | None, step: int) -> list[dict[str, Any]]:
        """Dataset rows of the panels with a role, sampled and where asked for greedy, at a global step."""
        seed = self.run.config.seed
        stream = f"{seed}:evaluate:{step}" if self.run.seeded else None
        return [
            row(
                index,
                task,
                max_turns=self.run.max_turns(task.env),
                seed=seed,
                __rollout_n__=1,
                decoding=tags["decoding"],
                temperature=self.run.config.envs[task.env].panels[tags["panel"]].temperature,
                tags=tags,
                **({} if stream is None else {"stream": f"{stream}:{index}"}),
            )
            for index, (task, tags) in enumerate(self._episodes(role))
        ]

    def _episodes(self, role: str | None) -> Iterator[tuple[Task, dict[str, str]]]:
        """The task and the tags of every episode."""
        for env, label in self.of_role(role):
            samples = {"sampled": self.run.config.envs[env].panels[label].samples, "greedy": 1}
            for decoding in self._decodings(env, label):
                for item_id in self.run.panels[env][label].item_ids:
                    for _ in range(samples[decoding]):
                        yield Task.parse(item_id), {"panel": label, "decoding": decoding}

    def _decodings(self, env: str, label: str) -> tuple[str, ...]:
        greedy = self.run.config.envs[env].panels[label].greedy
        return DECODINGS if (self.run.config.run.greedy if greedy is None else greedy) else ("sampled",)

    def scores(self, episodes: Sequence[Episode], role: str | None) -> tuple[Scores, Metrics]:
        """Scores of the episodes of :meth:`rows`, also as metrics ``val/<label>/<env>/...``."""
        result: Scores = {}
        metrics: Metrics = {}
        for (env, label, decoding), of_panel in self._parts(episodes, role).items():
            scored = score(of_panel, self.run.panels[env][label].digest)
            result.setdefault(label, {}).setdefault(env, {})[decoding] = scored.to_dict()
            metrics |= figures(scored, f"val/{label}/{env}/" + ("" if decoding == "sampled" else "greedy_"))
        return result, metrics

    def check(self, episodes: Sequence[Episode], role: str | None) -> None:
        """Check that enough of the episodes of :meth:`rows` count, on every panel (``run.min_counted``).

        Raises:
            EnvUnavailable: see :func:`agentgym_rl.eval.score.check_counted`.
        """
        asked = Counter((task.env, tags["panel"], tags["decoding"]) for task, tags in self._episodes(role))
        parts = {
            f"{env} on panel {label} ({decoding})": Count.of(of_panel, asked[env, label, decoding])
            for (env, label, decoding), of_panel in self._parts(episodes, role).items()
        }
        check_counted(parts, self.run.config.run.min_counted, "run.min_counted")

    def _parts(self, episodes: Sequence[Episode], role: str | None) -> dict[tuple[str, str, str], list[Episode]]:
        """The episodes of each environment, label and decoding."""
        parts: dict[tuple[str, str, str], list[Episode]] = {
            (env, label, decoding): [] for env, label in self.of_role(role) for decoding in self._decodings(env, label)
        }
        for episode in episodes:
            parts[episode.env, episode.tags["panel"], episode.tags["decoding"]].append(episode)
        return parts

    def validation_success(self, scores: Scores) -> float | None:
        """Mean sampled success over the validation panels; None without such panels, or where one has no success."""
        successes = [scores[label][env]["sampled"]["success"] for env, label in self.of_role(VALIDATION)]
        return fmean(successes) if successes and None not in successes else None

    def solved(self, episodes: Sequence[Episode]) -> frozenset[str]:
        """See :attr:`agentgym_rl.algorithms.base.Run.solved`."""
        of_task: dict[str, list[bool]] = {}
        for episode in episodes:
            panel = (episode.env, episode.tags["panel"])
            if panel in self.of_role(VALIDATION) and episode.tags["decoding"] == "sampled" and episode.ending.counts:
                of_task.setdefault(episode.item_id, []).append(episode.success)
        return frozenset(task for task, successes in of_task.items() if fmean(successes) >= 0.5)


def figures(scored: Score, prefix: str) -> Metrics:
    """The metrics of a score; one that no episode says anything of is absent."""
    named = {name: getattr(scored, name) for name in ("success", "reward", "turns", "error_rate")}
    return {f"{prefix}{name}": value for name, value in named.items() if value is not None}
