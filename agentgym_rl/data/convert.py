"""Trajectories from one published format to another."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_rl.data import agenttraj, entries
from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.episode import Episode
from agentgym_rl.data.files import rows, write_jsonl, write_parquet, write_text
from agentgym_rl.envs import Task, item_ids
from agentgym_rl.envs.protocol.wire import DIALECTS, dialect
from agentgym_rl.envs.tables import arrow


@dataclass(frozen=True, slots=True)
class Record:
    """A trajectory and its outcome; None where the file has none, as files of demonstrations do."""

    trajectory: Trajectory
    reward: float | None = None
    success: bool | None = None


def read(source: str | Path, env: str | None = None) -> list[Record]:
    """Episodes as runs of this package keep them, or files of AgentGym's and AgentGym-RL's.

    These are AgentTraj in all its forms (:func:`agentgym_rl.data.agenttraj.decode`), inference output, the output
    folders of ``openai_eval.py`` (an object a file), DPO pairs (each two trajectories: a success and a failure without
    rewards) and rollout logs (``step{N}/{rank}.json``). Of a folder all JSON files are read. An episode that its
    infrastructure ended (:attr:`agentgym_rl.data.episode.Ending.counts`), or that has no message, is left out.

    Args:
        env: the environment of entries whose task is only a number: AgentGym's DPO pairs and rollout logs.

    Raises:
        FileNotFoundError: there is no such file, see :func:`agentgym_rl.data.files.rows`.
        ValueError: an entry follows none of the formats; names file, entry (from 1) and fault.
    """
    records: list[Record] = []
    for file in _files(source):
        for number, entry in enumerate(rows(file, lone=True), start=1):
            try:
                records += _records(entry, env)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                fault = f"has no key {error}" if isinstance(error, KeyError) else error or type(error).__name__
                raise ValueError(f"{file}, entry {number}: {fault}") from error
    return records


def _files(source: str | Path) -> list[str | Path]:
    if not Path(source).is_dir():
        return [source]
    if of_run := sorted(Path(source, "episodes").glob("*.parquet")):
        raise ValueError(f"{source} is the folder of a run; give one of its files of episodes, such as {of_run[0]}")
    files = sorted(Path(source).rglob("*.json"), key=lambda path: [_natural(part) for part in path.parts])
    if not files:
        raise FileNotFoundError(f"{source} has no JSON files")
    return [*files]


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts step9 before step10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def _records(entry: Any, env: str | None) -> list[Record]:
    if not isinstance(entry, dict):
        return [Record(agenttraj.decode(entry))]
    reward, success = entries.reward(entry), entries.success(entry)
    if "turns" in entry:
        episode = Episode.from_dict(entry)
        if not episode.ending.counts or not episode.messages:
            return []
        trajectory = Trajectory.of(episode.item_id, episode.messages, episode.start)
        return [Record(trajectory, episode.reward, episode.success)]
    pair = entry.get("chosen") is not None
    task = entries.item_id(entry)
    task = _item_id(entry.get("id") if pair and task is None else task, env)
    if pair:
        prompt = {"item_id": task, "prompt": entry.get("prompt")}  # as TRL writes it
        sides = ((entry.get("chosen"), True), (entry.get("rejected"), False))
        return [Record(agenttraj.decode({**prompt, "completion": side}), success=good) for side, good in sides]
    return [_inferred(agenttraj.decode(entry if task is None else {**entry, "item_id": task}), reward, success)]


def _item_id(item_id: Any, env: str | None) -> Any:
    if not isinstance(item_id, int):
        return item_id
    if env is None:
        raise ValueError(f"the task is {item_id}, a number that does not say of which environment: add --env NAME")
    return f"{env}_{item_id}"


def _inferred(trajectory: Trajectory, reward: float | None, success: bool | None) -> Record:
    """The record of AgentGym's inference output, with the reward brought into [0, 1].

    ``success`` there means a reward of 1, which is wrong for SciWorld (0 to 100) and BabyAI (less with every step): of
    AgentGym's environments the reward decides, by the thresholds of its filters.
    """
    task = item_ids.read(trajectory.item_id)
    if reward is None or task is None or task[0] not in DIALECTS:
        return Record(trajectory, reward, success)
    words = DIALECTS[task[0]]
    return Record(trajectory, min(max(reward / words.full, 0.0), 1.0), reward > words.success_above)


def learnable(records: Iterable[Record]) -> list[Record]:
    """Those with a response to train on."""
    return [record for record in records if True in record.trajectory.loss]


def keep(records: Iterable[Record], *, successes: bool = False, per_task: int | None = None) -> list[Record]:
    """A selection of the records, in their order.

    Args:
        successes: only those that succeeded; unknown counts as a success.
        per_task: at most this many of a task, the shortest first; equal conversations count once.
    """
    chosen = [record for record in records if not successes or record.success is not False]
    if per_task is None:
        return chosen
    by_task: dict[str, dict[str, Record]] = defaultdict(dict)
    for record in chosen:
        by_task[record.trajectory.item_id].setdefault(json.dumps(record.trajectory.messages), record)
    return [
        record
        for distinct in by_task.values()
        for record in sorted(distinct.values(), key=lambda record: len(record.trajectory.messages))[:per_task]
    ]


def agenttraj_file(path: Path, records: Sequence[Record]) -> int:
    """AgentTraj JSON."""
    agenttraj.write(path, [record.trajectory for record in records])
    return len(records)


def inference_file(path: Path, records: Sequence[Record]) -> int:
    """AgentGym's inference output: JSON lines with ``conversations``, ``item_id``, ``reward`` and ``success``.

    ``reward`` has AgentGym's scale (SciWorld's goes to 100), for its filters; ``success`` is the record's.

    Raises:
        ValueError: a reward is not known.
    """
    for record in records:
        if record.reward is None:
            raise ValueError(f"{record.trajectory.item_id} has no reward; inference output needs one")
    write_jsonl(path, ({**agenttraj.encode(record.trajectory), **_outcome(record)} for record in records))
    return len(records)


def verl_file(path: Path, records: Sequence[Record]) -> int:
    """Parquet for verl's ``MultiTurnSFTDataset`` (column ``messages``), which trains on every response.

    To keep an acknowledgement out of the loss, it is left out, and instruction and first observation become one user
    message. ``item_id``, ``reward`` (on AgentGym's scale) and ``success`` are further columns.

    Raises:
        ValueError: another response is not trained on, which the format cannot express.
    """
    return _parquet(path, [{"messages": _all_trained(record.trajectory), **_facts(record)} for record in records])


def trl_file(path: Path, records: Sequence[Record]) -> int:
    """Parquet for TRL's ``SFTTrainer``: ``prompt`` is everything before the first response that is
    trained on, ``completion`` the rest; ``assistant_only_loss=True`` keeps the observations out of the loss.

    The further columns are those of :func:`verl_file`.

    Raises:
        ValueError: a later response is not trained on, which the format cannot express.
    """
    table = []
    for record in records:
        messages, start = list(record.trajectory.messages), _trained_from(record.trajectory)
        table.append({"prompt": messages[:start], "completion": messages[start:], **_facts(record)})
    return _parquet(path, table)


def preference_file(path: Path, records: Sequence[Record]) -> int:
    """AgentGym's DPO JSON: ``id``, ``prompt``, ``chosen``, ``rejected``; one pair a task, best against worst reward.

    ``item_id`` is added, for AgentGym's ``id`` does not say of which environment. Tasks whose rewards are all equal, or
    whose conversations start differently, give none.

    Raises:
        TaskNotFound: a task has no number.
        ValueError: of a trajectory neither reward nor success is known, or there is no pair.
    """
    by_task: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.reward is None and record.success is None:
            raise ValueError(f"{record.trajectory.item_id} has no reward; pairs need one")
        by_task[record.trajectory.item_id].append(record)
    pairs = []
    for item_id, attempts in by_task.items():
        ranked = sorted(attempts, key=_reward)
        worst, best = ranked[0], ranked[-1]
        start = best.trajectory.first_trained
        good, bad = (agenttraj.encode(record.trajectory)["conversations"] for record in (best, worst))
        if _reward(best) > _reward(worst) and good[:start] == bad[:start]:
            sides = {"prompt": good[:start], "chosen": good[start:], "rejected": bad[start:]}
            pairs.append({"id": Task.parse(item_id).index, "item_id": item_id, **sides})
    if not pairs:
        raise ValueError("no task has both a better and a worse episode")
    write_text(path, json.dumps(pairs, ensure_ascii=False, indent=2) + "\n")
    return 2 * len(pairs)


ENDS = {"agenttraj": ".json", "inference": ".jsonl", "verl": ".parquet", "trl": ".parquet", "preference": ".json"}
"""How the names of the formats' files end."""

FORMATS: Mapping[str, Callable[[Path, Sequence[Record]], int]] = {
    "agenttraj": agenttraj_file,
    "inference": inference_file,
    "verl": verl_file,
    "trl": trl_file,
    "preference": preference_file,
}
"""Each writes a file, and returns how many trajectories are in it."""


def _reward(record: Record) -> float:
    """The reward, or what stands for it in DPO pairs."""
    return float(bool(record.success)) if record.reward is None else record.reward


def _all_trained(trajectory: Trajectory) -> list[dict[str, str]]:
    start, messages = _trained_from(trajectory), list(trajectory.messages)
    if False not in trajectory.loss:
        return messages
    if start != 3 or not agenttraj.acknowledged(messages):
        raise _untrained(trajectory, trajectory.loss.index(False))
    opening = "\n\n".join(messages[at]["content"] for at in (0, 2))
    return [{"role": "user", "content": opening}, *messages[start:]]


def _trained_from(trajectory: Trajectory) -> int:
    """Position of the first response that is trained on, after which all are."""
    start = trajectory.first_trained
    if False in (after := trajectory.loss[start:]):
        raise _untrained(trajectory, start + after.index(False))
    return start


def _untrained(trajectory: Trajectory, at: int) -> ValueError:
    return ValueError(
        f"trajectory {trajectory.item_id} has a response that is not trained on, message {at + 1}, which the format "
        "cannot express; --to agenttraj can"
    )


def _facts(record: Record) -> dict[str, Any]:
    return {"item_id": record.trajectory.item_id, **_outcome(record)}


def _outcome(record: Record) -> dict[str, Any]:
    """Reward, on the scale of AgentGym's environment, and success, as far as they are known."""
    if record.reward is None:
        return {"reward": None, "success": None if record.success is None else int(record.success)}
    task = item_ids.read(record.trajectory.item_id)
    success = record.reward == 1 if record.success is None else record.success
    return {"reward": record.reward * dialect(task[0] if task else "").full, "success": int(success)}


def _parquet(path: Path, table: list[dict[str, Any]]) -> int:
    pyarrow, _ = arrow(path)
    write_parquet(path, pyarrow.Table.from_pylist(table))
    return len(table)
