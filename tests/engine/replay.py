"""Recorded episodes in place of sampled ones: everything that the same-training test assumes about the engine.

A run of ``train`` is given a session whose trainer takes its episodes from a recording instead of asking agent-loop
workers for them. Everything after the episodes is the real engine. What is assumed:

* ``train(run, console, session)`` runs a configuration from ``load(overrides)``, resolved, and takes its trainer from
  ``session.trainer(...)``.
* ``trainer.begin(manager)`` replaces the manager of the agent loops, and the trainer only calls the manager's
  ``generate_sequences(batch)``, with verl's batch of prompts: ``uid``, ``item_id``, ``__rollout_n__`` and what else a
  row of a step holds.
* Agent loops are run by ``EarlyWorker``; :func:`extra_fields` names what one adds to the tokens of an episode.
* ``metrics.jsonl`` and verl's checkpoints lie in the run's folder.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import transfer_queue as tq
from rich.console import Console
from safetensors.torch import load_file
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from agentgym_rl.data.episode import Episode
from agentgym_rl.engine.recipe.compose import load
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run.session import Session
from agentgym_rl.engine.run.train import train
from agentgym_rl.engine.verl.agent_loops import EarlyWorker
from agentgym_rl.engine.verl.rows import prompt_of, read_episodes, session_of
from agentgym_rl.rollout.recorder import Advantages

RENAMED = {"horizon": "max_turns", "sample": "segment"}
"""Fields of episodes and turns that have another name now than in the recording: recorded name, present name."""

UNTOLD = {"began", "reset_s", "began_s", "model_s", "parse_s", "env_s", "pieces", "log_probs", "tags"}
"""Fields of episodes and turns that are not recorded: times, and copies of what the tokens' rows hold."""

FAILED = "env_error"


def extra_fields(episode: dict[str, Any], row: dict[str, Any], last: bool) -> dict[str, Any]:
    """What the package's agent loop puts beside the tokens of a row.

    Args:
        episode: as recorded.
        row: the prompt's fields.
        last: whether the row is the last one of its episode, which carries the episode.
    """
    step = int(row["global_steps"])
    weights = step if episode["ending"] == FAILED else step - 1
    present = _renamed(episode) | {
        "tags": dict(row.get("tags") or {}),
        "seed": int(row.get("seed", 0)),
        "model_step": step,
    }
    return {
        "episode": Episode.from_dict(present) if last else None,
        "min_global_steps": weights,
        "max_global_steps": weights,
        "reward_extra_info": {"acc": float(episode["success"])},
    }


def _renamed(recorded: Any) -> Any:
    if isinstance(recorded, list):
        return [_renamed(part) for part in recorded]
    if isinstance(recorded, dict):
        return {RENAMED.get(key, key): _renamed(value) for key, value in recorded.items()}
    return recorded


class Recording:
    """Tasks, demonstrations and episodes with their tokens, as a compressed JSON file."""

    def __init__(self, path: Path) -> None:
        content = json.loads(gzip.decompress(path.read_bytes()))
        self.items: list[str] = content["items"]
        self.demonstrations: list[Any] = content["demonstrations"]
        self.batches: dict[str, dict[str, list[Any]]] = content["batches"]
        """Episodes by batch and item id, each with the rows of its tokens."""

    def unpack(self, folder: Path) -> dict[str, str]:
        """Write tasks and demonstrations as files a recipe can name; returns the paths."""
        files = {
            "items": [{"item_id": item} for item in self.items],
            "demonstrations": self.demonstrations,
        }
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / f"{name}.json").write_text(json.dumps(content))
        return {name: str(folder / f"{name}.json") for name in files}


class _Player(EarlyWorker):
    """The agent-loop worker, in this process, one prompt after the other, with a recording for an agent loop."""

    def __init__(self, config: Any, episodes: dict[str, list[Any]], first: dict[str, int]) -> None:
        """
        Args:
            first: by the uid of a prompt, the number of the recorded episode that its first sample takes.
        """
        self.config, self.episodes, self.first = config, episodes, first
        self._episodes = SimpleNamespace(run=self._recorded)
        self.background_tasks: set[asyncio.Task[None]] = set()
        self._prompts = asyncio.Lock()

    async def play(self, batch: Any) -> None:
        """Put the rows of all episodes into the TransferQueue, in the order of the batch."""
        await self.generate_sequences(batch)
        await asyncio.gather(*self.background_tasks)

    async def _run_prompt(self, prompt: dict[str, Any], *arguments: Any, **named: Any) -> None:
        async with self._prompts:
            await super()._run_prompt(prompt, *arguments, **named)

    async def _recorded(self, sampling_params: Any, *, sample: int, **row: Any) -> list[AgentLoopOutput]:
        recorded = self.episodes[row["item_id"]][self.first[row["uid"]] + sample]
        return [
            AgentLoopOutput(
                prompt_ids=tokens["prompt"],
                response_ids=tokens["response"],
                response_mask=tokens["mask"],
                response_logprobs=tokens["log_probs"],
                reward_score=recorded["episode"]["reward"],
                num_turns=len(recorded["episode"]["turns"]),
                metrics=AgentLoopMetrics(generate_sequences=0.0, tool_calls=0.0),
                extra_fields=extra_fields(recorded["episode"], row, tokens is recorded["rows"][-1]),
            )
            for tokens in recorded["rows"]
        ]


class RecordedManager:
    """Stands where the manager of the agent loops stands; the order of rows is that of the recording's tasks."""

    def __init__(self, config: Any, recording: Recording, batch: str) -> None:
        self.config, self.recording, self.batch = config, recording, batch
        self.agent_loop_workers: list[Any] = []

    def generate_sequences(self, batch: Any) -> None:
        """Put the recorded episodes of the prompts into the TransferQueue; returns when all are there."""
        items, uids = list(batch["item_id"]), list(batch["uid"])
        seen: Counter[str] = Counter()
        first: dict[str, int] = {}
        counts = list(batch["__rollout_n__"]) if "__rollout_n__" in batch else [1] * len(items)
        for item, uid, count in zip(items, uids, counts, strict=True):
            first[uid] = seen[item]
            seen[item] += int(count)
        order = sorted(range(len(items)), key=lambda row: self.recording.items.index(items[row]))
        asyncio.run(_Player(self.config, self.recording.batches[self.batch], first).play(batch[order]))

    def write_episodes(self, path: Path, asked: Advantages) -> list[list[str]]:
        """Nothing: the queue carries recorded episodes whole."""
        return []


class ReplaySession(Session):
    """Its trainers take their episodes from a recording."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(several=True)
        self.recording = recording
        self.batch = ""
        """The batch of the recording that runs take."""

    def trainer(self, settings: Any, *arguments: Any, **named: Any) -> Any:
        """The real trainer, without agent loops."""
        trainer = super().trainer(settings, *arguments, **named)
        trainer.begin(RecordedManager(settings, self.recording, self.batch))
        return trainer


class RecordingSession(Session):
    """Keeps every training episode that its trainer samples."""

    def __init__(self) -> None:
        super().__init__(several=True)
        self.episodes: dict[str, list[Any]] = {}
        """By item id, in the order of their samples."""

    def trainer(self, *arguments: Any, **named: Any) -> Any:
        """The real trainer with the real agent loops, overheard."""
        trainer = super().trainer(*arguments, **named)
        trainer.begin(_Overheard(trainer.agent_loop_manager, self.episodes))
        return trainer


class _Overheard:
    def __init__(self, manager: Any, episodes: dict[str, list[Any]]) -> None:
        self.manager = getattr(manager, "manager", manager)
        self.episodes = episodes

    def write_episodes(self, path: Path, asked: Advantages) -> list[list[str]]:
        written: list[list[str]] = self.manager.write_episodes(path, asked)
        return written

    def generate_sequences(self, batch: Any) -> None:
        items = dict(zip(list(batch["uid"]), list(batch["item_id"]), strict=True))
        if "validate" in batch:
            items = {}
        self.manager.generate_sequences(batch)
        if not items:
            return
        while True:
            tags = tq.kv_list("train")["train"]
            states = {tags[uid]["status"] for uid in items}
            if "failure" in states:
                raise RuntimeError("an episode could not be sampled; Ray's logs say why")
            if states == {"finished"}:
                break
            time.sleep(0.1)
        keys = sorted((key for key in tags if key not in items), key=lambda key: _numbers(key, list(items)))
        names = ["prompts", "responses", "response_mask", "rollout_log_probs"]
        data = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=names)
        rows: dict[str, list[Any]] = {}
        columns = [data[name].unbind() for name in names]
        for key, prompt, response, mask, log_probs in zip(keys, *columns, strict=True):
            rows.setdefault(session_of(key), []).append(
                {
                    "prompt": prompt.tolist(),
                    "response": response.tolist(),
                    "mask": mask.tolist(),
                    "log_probs": [round(value, 6) for value in log_probs.tolist()],
                }
            )
        for session, episode in read_episodes(list(items), "train").items():
            recorded_episode = {"episode": _told(episode.to_dict()), "rows": rows[session]}
            self.episodes.setdefault(items[prompt_of(session)], []).append(recorded_episode)


def _numbers(key: str, uids: Sequence[str]) -> tuple[int, ...]:
    uid, session, row = key.split("_")
    return uids.index(uid), int(session), int(row)


def _told(recorded: Any) -> Any:
    if isinstance(recorded, (list, tuple)):
        return [_told(part) for part in recorded]
    if isinstance(recorded, dict):
        return {key: _told(value) for key, value in recorded.items() if key not in UNTOLD}
    return recorded


def break_off(recorded: dict[str, Any]) -> None:
    """Make a recorded episode one that failed outside the agent in its second turn: a single masked token is left."""
    episode, first = recorded["episode"], recorded["rows"][0]
    end = first["response"][max(at for at, counts in enumerate(first["mask"]) if counts)]  # replies end with this token
    episode |= {"ending": FAILED, "error": "the environment broke off", "reward": 0.0, "success": False}
    episode["messages"] = episode["messages"][: len(episode["messages"]) - 2 * (len(episode["turns"]) - 1)]
    episode["turns"] = episode["turns"][:1]
    recorded["rows"] = [{"prompt": [end], "response": [end], "mask": [0], "log_probs": [0.0]}]


def run(overrides: Sequence[str], folder: Path, session: Session) -> None:
    """Train as ``agentgym-rl train`` does, on an engine that is shared with other runs."""
    with (folder.parent / f"{folder.name}.out").open("w") as out:
        train(Resolved(load([*overrides, f"run.dir={folder}"])), Console(file=out), session)


def metrics(folder: Path) -> list[dict[str, float]]:
    """Of each step with metrics all that were logged, training and evaluation together."""
    steps: dict[int, dict[str, float]] = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        steps.setdefault(row["step"], {}).update(row)
    return [steps[step] for step in sorted(steps)]


def weights(folder: Path, role: str) -> dict[int, dict[str, torch.Tensor]]:
    """The weights that a run saved, by step and name; the role is ``actor``, ``critic`` or ``models/<name>``."""
    steps: dict[int, dict[str, torch.Tensor]] = {}
    for place in (folder / "checkpoints").glob("global_step_*"):
        if not (file := place / role / "model_world_size_1_rank_0.pt").is_file():
            continue
        tensors = torch.load(file, map_location="cpu", weights_only=False)
        step = int(place.name.rpartition("_")[2])
        steps[step] = {
            name: value.to_local() if hasattr(value, "to_local") else value for name, value in tensors.items()
        }
    return dict(sorted(steps.items()))


def initial_weights(cache: Path) -> dict[str, torch.Tensor]:
    """The weights of the only tiny model in a cache."""
    (file,) = cache.glob("*/model.safetensors")
    return load_file(file)
