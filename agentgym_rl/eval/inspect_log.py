"""Evaluations as logs of Inspect AI, which ``inspect view`` and its data frames open.

The files follow version 2 of Inspect's JSON log (``inspect_ai.log.EvalLog``); Inspect itself is not imported. There is
one log for each panel, decoding and file of episodes; a sample's epoch counts the episodes of its task from 1. Each
turn is a model event, whose input is the conversation before it.
"""

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
    for file, listed in groupby(store.query(), key=lambda summary: summary.file):
        groups: dict[tuple[str, str, str], list[Episode]] = {}
        for summary in listed:
            if summary.panel is not None:
                groups.setdefault((summary.env, summary.panel, summary.decoding or ""), []).append(store.open(summary))
        for (env, panel, decoding), episodes in groups.items():
            facts = {**_facts(place, env, panel), "panel": panel, "decoding": decoding, "file": file}
            eval_log = log(episodes, facts, f"{env}/{panel}")
            name = re.sub(r"\W+", "-", f"{env}-{panel}-{decoding}-{file}").strip("-")
            files.append(out / f"{_file_time(episodes)}_{name}_{eval_log['eval']['task_id']}.json")
            write_text(files[-1], json.dumps(eval_log, ensure_ascii=False) + "\n")
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
    created, ended = _time(_began(episodes)), _time(max(episode.began + _seconds(episode) for episode in episodes))
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
            _sample(record, epoch, model, f"{digest}-{record.item_id}-{epoch}")
            for samples in by_task.values()
            for epoch, record in enumerate(samples, start=1)
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
    figures = score([Outcome.of(item_id, "", samples) for item_id, samples in by_task.items()], seed)
    scores = []
    for name, measure in (("success", figures.success), ("reward", figures.reward)):
        values = () if measure is None else (measure.value, *measure.ci95)
        metrics = {
            key: {"name": key, "value": value}
            for key, value in zip(("mean", "ci95_low", "ci95_high"), values, strict=False)
        }
        scores.append({"name": name, "scorer": name, "scored_samples": figures.episodes, "metrics": metrics})
    return scores


def _sample(episode: Episode, epoch: int, model: str, uuid: str) -> dict[str, Any]:
    shown = [{**message, "id": f"{uuid}-{place}"} for place, message in enumerate(episode.messages)]
    messages = list(shown)
    if episode.turns and messages and messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": episode.turns[-1].observation, "id": f"{uuid}-{len(shown)}"})
    last = episode.turns[-1].response if episode.turns else ""
    sample: dict[str, Any] = {
        "id": episode.item_id,
        "epoch": epoch,
        "uuid": uuid,
        "input": shown[: episode.start],
        "target": "",
        "messages": messages,
        "events": _events(episode, shown, model, uuid),
        "events_data": {"messages": shown, "calls": []},
        "output": {"model": model, "choices": [{"message": {"role": "assistant", "content": last}}]} if last else {},
        "metadata": {
            "ending": episode.ending.value, "reward": episode.reward, "turns": len(episode.turns),
            "max_turns": episode.max_turns,
            "step": episode.model_step, "attempts": episode.attempts, **episode.tags,
        },
        "turn_count": len(episode.turns),
        "total_time": _seconds(episode),
        "working_time": episode.seconds + episode.reset_s,
    }  # fmt: skip
    if episode.began:
        sample["started_at"] = _time(episode.began)
    if episode.ending.counts:
        why = f"{episode.ending.value} after {len(episode.turns)} of {episode.max_turns} turns"
        why += f": {episode.error}" if episode.error else ""
        sample["scores"] = {
            "success": {"value": int(episode.success), "explanation": why},
            "reward": {"value": episode.reward, "explanation": why},
        }
    else:
        error = episode.error or episode.ending.value
        sample["error"] = {"message": error, "traceback": error, "traceback_ansi": error}
    if episode.ending in LIMITS:
        spent = (
            episode.prompt_tokens + episode.response_tokens
            if episode.ending is Ending.CONTEXT_LIMIT
            else episode.max_turns
        )
        sample["limit"] = {"type": LIMITS[episode.ending], "limit": spent}
    return sample


def _events(episode: Episode, shown: Sequence[Mapping[str, str]], model: str, uuid: str) -> list[dict[str, Any]]:
    """A model event for each turn; its input refers to the messages in ``events_data``."""
    responses = [
        place for place, message in enumerate(shown) if message["role"] == "assistant" and place >= episode.start
    ]
    return [
        {
            "event": "model", "uuid": f"{uuid}-event-{number}", "model": model,
            "timestamp": _time(episode.began + turn.began_s),
            "completed": _time(episode.began + turn.began_s + turn.model_s),
            "working_start": turn.began_s, "working_time": turn.model_s,
            "input": [], "input_refs": [[0, place]], "tools": [], "tool_choice": "none", "config": {},
            "output": {"model": model, "choices": [{"message": shown[place]}]},
        }
        for number, (place, turn) in enumerate(zip(responses, episode.turns, strict=True))
    ]  # fmt: skip


def _seconds(episode: Episode) -> float:
    """From its beginning to its end, with what lies between its turns."""
    worked = episode.seconds + episode.reset_s
    if not episode.turns:
        return worked
    last = episode.turns[-1]
    return max(worked, last.began_s + last.model_s + last.parse_s + last.env_s)  # some have no clock times


def _began(episodes: Sequence[Episode]) -> float:
    """When the first of them began."""
    return min((episode.began for episode in episodes if episode.began), default=0.0)


def _file_time(episodes: Sequence[Episode]) -> str:
    """The time with which a JSON log's name begins: Inspect knows it by that."""
    return datetime.fromtimestamp(_began(episodes), UTC).strftime("%Y-%m-%dT%H-%M-%S+00-00")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
