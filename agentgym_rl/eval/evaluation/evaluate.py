"""Playing a plan: any number of episodes at once, kept as they finish, gone on with after an interruption."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agentgym_rl.data import episode_store, item_ids
from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.envs import Task, TextEnv
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.envs.hosts import Local, Opener
from agentgym_rl.eval.evaluation import result
from agentgym_rl.eval.evaluation.plan import Plan
from agentgym_rl.eval.evaluation.result import Result
from agentgym_rl.rollout.journal import Partial
from agentgym_rl.rollout.policies.base import Player, Usage
from agentgym_rl.rollout.settings import RolloutSettings

MakePlayer = Callable[[RolloutSettings], Player]
"""Who plays, by the rules of a world."""
Progress = Callable[[int, int], None]
"""Called with the number of episodes played and of all episodes."""
Price = tuple[float, float]
"""Of a million prompt tokens and of a million completion tokens."""

EPISODES = Path("episodes") / "evaluation.parquet"
"""Where the episodes are in an evaluation's folder, which is one for the episode store."""
PATIENCE = 20
"""Episodes in a row that may fail outside the agent before the evaluation stops."""


async def evaluate(
    plan: Plan,
    make_player: MakePlayer,
    folder: Path,
    *,
    concurrency: int = 1,
    place: Opener | None = None,
    progress: Progress | None = None,
    usage: Usage | None = None,
    price: Price = (0, 0),
) -> Result:
    """Play every episode of a plan, in any order, and write ``result.json``, ``panel.json`` and the episodes.

    Finished episodes are kept beside ``result.json`` until it is there, so that the same call goes on after a kill.
    Where the folder holds the result of the same plan, its episodes are taken over, and those that failed outside the
    agent are played again.

    Args:
        concurrency: episodes played at the same time, each in a session of its own.
        place: where the worlds run; None is this process.
        usage: what the model was asked for, counted up by its players; that of earlier calls is added.

    Raises:
        ValueError: an argument is out of range, the folder holds another evaluation, or the policy refused to play.
        EnvUnavailable: ``PATIENCE`` episodes in a row failed; what was played is kept.
        MissingExtra: a world, or pyarrow, is not installed.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency is {concurrency}; give at least 1")
    episode_store.packages()
    place = place or Local()
    begun = time.monotonic()
    earlier = _earlier(plan, folder)
    for env in plan.suite.worlds:
        await place.check(env)
    players = {env: make_player(plan.rules.of_world(env)) for env in plan.suite.worlds}
    with Partial(folder / result.NAME, plan.to_dict()) as journal:
        game = _Game(plan, players, place, journal, usage)
        seconds = game.take_over(folder, earlier)
        try:
            await game.play(concurrency, progress or (lambda done, total: None), begun - seconds)
        finally:
            await place.close()
        episodes = [Episode.from_dict(journal.rows[_key(*job)]["episode"]) for job in plan.jobs]
        episode_store.write(folder / EPISODES, episodes)
        item_ids.write(folder / "panel.json", plan.suite.tasks)
        cost = {"seconds": round(time.monotonic() - begun + seconds, 1), **spent(usage, price)}
        found = Result.of(plan, episodes, cost)
        found.write(folder)
        journal.finish()
    return found


def spent(usage: Usage | None, price: Price) -> dict[str, Any]:
    """Calls, tokens and their price; nothing for a policy without a model."""
    if usage is None:
        return {}
    cost = (usage.prompt_tokens * price[0] + usage.completion_tokens * price[1]) / 1e6
    return {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        **({"price": round(cost, 6)} if any(price) else {}),
    }


def _earlier(plan: Plan, folder: Path) -> Result | None:
    """The result in a folder.

    Raises:
        ValueError: it is that of another plan.
    """
    if not (folder / result.NAME).is_file():
        return None
    found = result.read(folder)
    own = plan.to_dict()
    if found.plan != own:
        other = [key for key in own if found.plan.get(key) != own[key]]
        raise ValueError(
            f"{folder} holds the result of an evaluation with another {' and '.join(other)}; choose another out="
        )
    return found


class _Game:
    """The episodes of a plan, as they are played."""

    def __init__(
        self, plan: Plan, players: Mapping[str, Player], place: Opener, journal: Partial, usage: Usage | None
    ) -> None:
        self.plan, self.players, self.place, self.journal, self.usage = plan, players, place, journal, usage
        self.failed_in_a_row = 0

    def take_over(self, folder: Path, earlier: Result | None) -> float:
        """Count what was played and spent before; returns the seconds it took."""
        rows, usage = self.journal.rows, self.usage
        cost: Mapping[str, Any] = {} if earlier is None else earlier.cost
        if earlier is not None:
            for episode in episode_store.read(folder / EPISODES):
                key = _key(episode.item_id, int(episode.tags["sample"]))
                if key not in rows:
                    rows[key] = {"episode": episode.to_dict()}
        last = max((row["so_far"] for row in rows.values() if "so_far" in row), default=None)
        if usage is not None and last is not None:
            usage.calls, usage.prompt_tokens, usage.completion_tokens = map(int, last[1:])
        elif usage is not None and cost:
            usage.calls, usage.prompt_tokens, usage.completion_tokens = (
                cost["calls"], cost["prompt_tokens"], cost["completion_tokens"],
            )  # fmt: skip
        return float(last[0] if last is not None else cost.get("seconds", 0.0))

    async def play(self, concurrency: int, progress: Progress, begun: float) -> None:
        """Play what is missing; the first fault ends all."""
        rows, jobs = self.journal.rows, self.plan.jobs
        missing = [job for job in jobs if not _counts(rows.get(_key(*job)))]
        waiting = iter(missing)
        done = len(jobs) - len(missing)
        progress(done, len(jobs))

        def finished(item_id: str, number: int, episode: Episode) -> None:
            nonlocal done
            done += 1
            self.journal.add(_key(item_id, number), {"episode": episode.to_dict(), "so_far": self._so_far(begun)})
            progress(done, len(jobs))
            self._watch(episode)

        seats = [asyncio.create_task(self._seat(waiting, finished)) for _ in range(min(concurrency, len(missing)))]
        try:
            await asyncio.gather(*seats)
        finally:
            for seat in seats:
                seat.cancel()
            await asyncio.gather(*seats, return_exceptions=True)
            self.journal.add("so far", {"so_far": self._so_far(begun)})  # with what was spent on unfinished episodes

    async def _seat(self, waiting: Iterator[tuple[str, int]], finished: Callable[[str, int, Episode], None]) -> None:
        """Play one episode after the other, in sessions that are opened when first needed."""
        sessions: dict[str, TextEnv] = {}
        try:
            for item_id, number in waiting:
                task = Task.parse(item_id)
                if task.env not in sessions:
                    options = {**self.plan.rules.options_of(task.env), "style": self.plan.rules.settings.style}
                    sessions[task.env] = self.place.open(task.env, options)
                finished(item_id, number, await self._episode(sessions[task.env], task, number))
        finally:
            for session in sessions.values():
                await session.close()

    async def _episode(self, world: TextEnv, task: Task, number: int) -> Episode:
        episode = await self.players[task.env].play(world, task, number)
        if episode is None:  # the oracle knows no way
            limit = self.plan.rules.of_world(task.env).max_turns or world.spec.max_turns
            episode = Episode(
                env=task.env, item_id=str(task), ending=Ending.TURN_LIMIT, reward=0.0, success=False, horizon=limit
            )
        panel = next(one.name for one in self.plan.suite.panels if one.env == task.env)
        decoding = "sampled" if self.plan.temperature else "greedy"
        episode.seed = self.plan.seed
        episode.tags |= {"panel": panel, "decoding": decoding, "sample": number}
        return episode

    def _so_far(self, begun: float) -> list[float]:
        """Seconds, calls, prompt and completion tokens."""
        spent = [] if (one := self.usage) is None else [one.calls, one.prompt_tokens, one.completion_tokens]
        return [round(time.monotonic() - begun, 1), *spent]

    def _watch(self, episode: Episode) -> None:
        """Raises EnvUnavailable: nothing has worked for a while, and playing on would only take time."""
        self.failed_in_a_row = 0 if episode.ending.counts else self.failed_in_a_row + 1
        if self.failed_in_a_row >= PATIENCE:
            raise EnvUnavailable(
                f"{PATIENCE} episodes in a row failed outside the agent, the last with {episode.error}; "
                f"what was played is kept in {self.journal.path}, and the same command goes on"
            )


def _key(item_id: str, number: int) -> str:
    return f"{item_id} {number}"


def _counts(row: Mapping[str, Any] | None) -> bool:
    return row is not None and Ending(row["episode"]["ending"]).counts
