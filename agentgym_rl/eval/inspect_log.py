"""Evaluations as logs of Inspect AI, which ``inspect view`` and its data frames open.

The files follow version 2 of Inspect's JSON log (``inspect_ai.log.EvalLog``); Inspect itself is not imported. There is
one log for each panel, decoding and file of episodes; a sample's epoch counts the episodes of its task from 1. Each
turn is a model event, whose input is the conversation before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.data.files import write_text
from agentgym_rl.envs.splits import fingerprint
from agentgym_rl.envs.tables import json_object
from agentgym_rl.eval.evaluation.result import NAME as RESULT
from agentgym_rl.eval.evaluation.scores import Outcome, score

LIMITS = {Ending.TURN_LIMIT: "turn", Ending.CONTEXT_LIMIT: "context"}
"""Inspect's names of the limits that end an episode."""


def export(place: Path, out: Path) -> list[Path]:
    """Write the evaluations of a run, or an evaluation's folder, as logs; returns their files.

    The same evaluation gives the same file names.

    Raises:
        FileNotFoundError: there are no episodes at ``place``.
        ValueError: none of them belongs to an evaluation.
        MissingExtra: pyarrow or scipy is not installed.
    """
    store = EpisodeStore(place)
    files = []
    for file, listed in groupby(store.query(), key=lambda one: one.file):
        groups: dict[tuple[str, str, str], list[Episode]] = {}
        for one in listed:
            if one.panel is not None:
                groups.setdefault((one.env, one.panel, one.decoding or ""), []).append(store.open(one))
        for (env, panel, decoding), episodes in groups.items():
            facts = {**_facts(place, env, panel), "panel": panel, "decoding": decoding, "file": file}
            found = log(episodes, facts, f"{env}/{panel}")
            name = re.sub(r"\W+", "-", f"{env}-{panel}-{decoding}-{file}").strip("-")
            files.append(out / f"{_file_time(episodes)}_{name}_{found['eval']['task_id']}.json")
            write_text(files[-1], json.dumps(found, ensure_ascii=False) + "\n")
    if not files:
        raise ValueError(f"{place} has episodes of training only; Inspect's logs are of evaluations")
    return files


def log(episodes: Sequence[Episode], facts: Mapping[str, Any], task: str) -> dict[str, Any]:
    """The log of some episodes, of which there is at least one, in plain JSON types.

    Args:
        facts: of the evaluation; ``model`` is its policy, the others become metadata.
        task: its name in Inspect.
    """
    model, metadata = str(facts["model"]), {key: value for key, value in facts.items() if key != "model"}
    by_task: dict[str, list[Episode]] = {}
    for episode in episodes:
        by_task.setdefault(episode.item_id, []).append(episode)
    created, ended = _time(_began(episodes)), _time(max(episode.began + episode.seconds for episode in episodes))
    tokens = [sum(episode.prompt_tokens for episode in episodes), sum(episode.response_tokens for episode in episodes)]
    usage = {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": sum(tokens)}
    digest = fingerprint(json.dumps([task, facts, [*by_task]], default=str), 22)
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": digest, "run_id": digest, "task_id": digest, "task": task, "created": created, "model": model,
            "dataset": {"name": task, "samples": len(by_task), "sample_ids": [*by_task]}, "metadata": metadata,
            "config": {"epochs": max(map(len, by_task.values()))},
        },
        "plan": {"name": "plan", "steps": [{"solver": "agentgym_rl"}]},
        "results": {
            "total_samples": len(episodes),
            "completed_samples": sum(episode.ending.counts for episode in episodes),
            "scores": _scores(by_task, digest),
        },
        "stats": {"started_at": created, "completed_at": ended, "model_usage": {model: usage} if any(tokens) else {}},
        "samples": [
            _sample(one, epoch, model, f"{digest}-{one.item_id}-{epoch}")
            for own in by_task.values()
            for epoch, one in enumerate(own, start=1)
        ],
    }  # fmt: skip


def _facts(place: Path, env: str, panel: str) -> dict[str, Any]:
    """The policy as ``model``, the panel's digest, and the settings of an evaluation."""
    if (place / RESULT).is_file():
        plan = json_object(place / RESULT)["plan"]
        settings = {key: plan[key] for key in ("samples", "temperature", "seed", "rules")}
        return {"model": plan["policy"], "digest": plan["panel"]["envs"][env]["digest"], **settings}
    summary = place / "summary.json"
    digests = json_object(summary)["panels"] if summary.is_file() else {}
    return {"model": str(place), "digest": digests.get(env, {}).get(panel)}


def _scores(by_task: Mapping[str, Sequence[Episode]], seed: str) -> list[dict[str, Any]]:
    """Mean success and reward over tasks, with 95% intervals."""
    found = score([Outcome.of(item_id, "", own) for item_id, own in by_task.items()], seed)
    scores = []
    for name, measure in (("success", found.success), ("reward", found.reward)):
        values = () if measure is None else (measure.value, *measure.ci95)
        metrics = {
            key: {"name": key, "value": value}
            for key, value in zip(("mean", "ci95_low", "ci95_high"), values, strict=False)
        }
        scores.append({"name": name, "scorer": name, "scored_samples": found.episodes, "metrics": metrics})
    return scores


def _sample(one: Episode, epoch: int, model: str, uuid: str) -> dict[str, Any]:
    shown = [{**message, "id": f"{uuid}-{place}"} for place, message in enumerate(one.messages)]
    messages = list(shown)
    if one.turns and messages and messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": one.turns[-1].observation, "id": f"{uuid}-{len(shown)}"})
    last = one.turns[-1].response if one.turns else ""
    found: dict[str, Any] = {
        "id": one.item_id,
        "epoch": epoch,
        "uuid": uuid,
        "input": shown[: one.start],
        "target": "",
        "messages": messages,
        "events": _events(one, shown, model, uuid),
        "events_data": {"messages": shown, "calls": []},
        "output": {"model": model, "choices": [{"message": {"role": "assistant", "content": last}}]} if last else {},
        "metadata": {
            "ending": one.ending.value, "reward": one.reward, "turns": len(one.turns), "max_turns": one.max_turns,
            "step": one.model_step, "attempts": one.attempts, **one.tags,
        },
        "turn_count": len(one.turns),
        "total_time": one.seconds + one.reset_s,
        "working_time": one.seconds + one.reset_s,
    }  # fmt: skip
    if one.began:
        found["started_at"] = _time(one.began)
    if one.ending.counts:
        why = f"{one.ending.value} after {len(one.turns)} of {one.max_turns} turns"
        why += f": {one.error}" if one.error else ""
        found["scores"] = {
            "success": {"value": int(one.success), "explanation": why},
            "reward": {"value": one.reward, "explanation": why},
        }
    else:
        error = one.error or one.ending.value
        found["error"] = {"message": error, "traceback": error, "traceback_ansi": error}
    if one.ending in LIMITS:
        spent = one.prompt_tokens + one.response_tokens if one.ending is Ending.CONTEXT_LIMIT else one.max_turns
        found["limit"] = {"type": LIMITS[one.ending], "limit": spent}
    return found


def _events(one: Episode, shown: Sequence[Mapping[str, str]], model: str, uuid: str) -> list[dict[str, Any]]:
    """A model event for each turn; its input refers to the messages in ``events_data``."""
    responses = [place for place, message in enumerate(shown) if message["role"] == "assistant" and place >= one.start]
    return [
        {
            "event": "model", "uuid": f"{uuid}-event-{number}", "model": model,
            "timestamp": _time(one.began + turn.began_s), "completed": _time(one.began + turn.began_s + turn.model_s),
            "working_start": turn.began_s, "working_time": turn.model_s,
            "input": [], "input_refs": [[0, place]], "tools": [], "tool_choice": "none", "config": {},
            "output": {"model": model, "choices": [{"message": shown[place]}]},
        }
        for number, (place, turn) in enumerate(zip(responses, one.turns, strict=True))
    ]  # fmt: skip


def _began(episodes: Sequence[Episode]) -> float:
    """When the first of them began."""
    return min((episode.began for episode in episodes if episode.began), default=0.0)


def _file_time(episodes: Sequence[Episode]) -> str:
    """The time with which a JSON log's name begins: Inspect knows it by that."""
    return datetime.fromtimestamp(_began(episodes), UTC).strftime("%Y-%m-%dT%H-%M-%S+00-00")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
