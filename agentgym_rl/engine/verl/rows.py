"""Rows of verl's TransferQueue: which segment of which episode each holds, and which update takes it.

The key of a row is ``<uid of the prompt>_<session>_<segment>``; a session is one episode. The key of a prompt, its uid,
has the episodes themselves, which the driver alone reads: workers fetch all that their rows have, in every pass.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import ceil
from random import Random
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions

from agentgym_rl.algorithms.base import Metrics, Rollout
from agentgym_rl.data.episode import Episode
from agentgym_rl.engine.verl.drift import LOG_RATIO, NUMBERS
from agentgym_rl.engine.verl.drift_metrics import ratio_metrics as ratios
from agentgym_rl.rollout.supervised import Example, from_rollout

EPISODES = "episodes"
"""Field of a prompt: its episodes in the order of their sessions."""
WRITTEN = "written"
"""Told to workers with a batch: the field of log-probabilities of responses, in place of those of all tokens."""


class NothingToLearn(RuntimeError):
    """No episode of a batch can be learned from."""


def session_of(key: str) -> str:
    """The key of the episode that a segment's key is of."""
    return key.rsplit("_", 1)[0]


def prompt_of(session: str) -> str:
    """The uid of the prompt of a session."""
    return session.rsplit("_", 1)[0]


def segment_of(key: str) -> int:
    """The number of a row's segment in its episode."""
    return int(key.rsplit("_", 1)[1])


def pack(episodes: Sequence[Episode]) -> dict[str, bytes]:
    """The fields of a prompt: bytes, because the queue would copy objects attribute by attribute, in Python."""
    return {EPISODES: pickle.dumps([*episodes])}


def read_episodes(prompts: Sequence[str], partition_id: str) -> dict[str, Episode]:
    """The episodes of finished prompts by session."""
    data = tq.kv_batch_get(keys=[*prompts], partition_id=partition_id, select_fields=[EPISODES])
    packed = [getattr(value, "data", value) for value in data[EPISODES]]  # tensordict wraps some
    return {
        f"{prompt}_{session}": episode
        for prompt, pickled in zip(prompts, packed, strict=True)
        for session, episode in enumerate(pickle.loads(pickled))
    }


def episodes_of_rows(keys: Sequence[str], partition_id: str) -> dict[str, Episode]:
    """Episodes by session, which verl's own agent loops leave in the rows: the last segment of each brings one."""
    data = tq.kv_batch_get(keys=[*keys], partition_id=partition_id, select_fields=["extra_fields"])
    fields = [getattr(value, "data", value) for value in data["extra_fields"]]  # as above
    return {
        session_of(key): Episode.from_dict(row["episode"])  # the queue makes a dictionary of it
        for key, row in zip(keys, fields, strict=True)
        if row["episode"]
    }


def only(batch: KVBatchMeta, keys: Collection[str]) -> KVBatchMeta:
    """The batch with these rows; the others are cleared."""
    left_out = [key for key in batch.keys if key not in keys]
    if not left_out:
        return batch
    tq.kv_clear(keys=left_out, partition_id=batch.partition_id)
    return batch.select_keys([key for key in batch.keys if key in keys])


def without_groups(batch: KVBatchMeta, prompts: Collection[str]) -> KVBatchMeta:
    """The batch without the episodes of these prompts."""
    return only(batch, {key for key in batch.keys if prompt_of(session_of(key)) not in prompts})


def rollouts_of(batch: KVBatchMeta, episodes: Mapping[str, Episode]) -> list[Rollout]:
    """The rollouts whose tokens a batch has.

    Args:
        episodes: by session, those of the batch among them.
    """
    keys_of: dict[str, list[str]] = {}
    for key in batch.keys:
        keys_of.setdefault(session_of(key), []).append(key)
    return [
        Rollout(episode=episodes[session], group=prompt_of(session), key=session, kept=sorted(keys, key=segment_of))
        for session, keys in keys_of.items()
    ]


def without_singletons(batch: KVBatchMeta, *, may_be_empty: bool = False) -> KVBatchMeta:
    """The batch without the episodes that are the only one of their prompt.

    Raises:
        NothingToLearn: none is left, unless the batch may be empty.
    """
    sessions = list(dict.fromkeys(session_of(key) for key in batch.keys))
    size = Counter(prompt_of(session) for session in sessions)
    compared = {key for key in batch.keys if size[prompt_of(session_of(key))] > 1}
    if not compared and not may_be_empty:
        raise NothingToLearn(
            f"each of the {len(sessions)} episodes of this step is the only one of its task that counts; "
            "set algorithm.samples_per_task to 2 or more"
        )
    return only(batch, compared)


def share_out(batch: KVBatchMeta, tasks: int, seed: str) -> list[list[str]]:
    """Keys of the rows that each update takes: groups in a seeded order, each with all rows of its episodes.

    There are as many updates as the groups fill with ``tasks`` each, to the nearest number; so a batch that lost groups
    makes fewer updates, not small ones. Their numbers of groups differ by at most one; among updates of equal numbers
    the next group goes to the one with the fewest rows. The order does not depend on which episode finished first.
    """
    groups: dict[str, list[str]] = {}
    for key in sorted(batch.keys, key=lambda key: (session_of(key), segment_of(key))):
        groups.setdefault(prompt_of(session_of(key)), []).append(key)
    prompts = list(groups)
    Random(seed).shuffle(prompts)
    updates = max(1, ceil(len(prompts) / tasks - 1 / 2))
    shares: list[list[list[str]]] = [[] for _ in range(updates)]
    for prompt in prompts:
        min(shares, key=lambda share: (len(share), sum(map(len, share)))).append(groups[prompt])
    return [[*chain.from_iterable(share)] for share in shares]


def arrange(batch: KVBatchMeta, shares: Sequence[Sequence[str]], workers: int) -> dict[str, int]:
    """Put the rows in the order in which verl deals them out: a chunk for each worker, its updates one after the other.

    Rows that belong to no update are padding, and fill each up to the same size. The rows of an update are dealt to the
    workers so that the numbers of tokens are alike.

    Returns:
        The update of each row, padding included, by key.
    """
    place = {key: index for index, key in enumerate(batch.keys)}
    shared = {key for share in shares for key in share}
    padding = [index for key, index in place.items() if key not in shared]
    size = len(batch) // len(shares)
    chunks: list[list[int]] = [[] for _ in range(workers)]
    update_of: dict[str, int] = {}
    for number, share in enumerate(shares):
        indices = [place[key] for key in share]
        indices += [padding.pop() for _ in range(size - len(indices))]
        update_of |= dict.fromkeys((batch.keys[index] for index in indices), number)
        loads = calculate_workload(torch.tensor([batch.tags[index]["seq_len"] for index in indices]))
        parts = get_seqlen_balanced_partitions(loads, k_partitions=workers, equal_size=True)
        for chunk, part in zip(chunks, parts, strict=True):
            chunk += [indices[at] for at in part]
    batch.reorder([index for chunk in chunks for index in chunk])
    return update_of


def log_probs_of(
    batch: KVBatchMeta, compute: Callable[[KVBatchMeta], Any], temperature: float, field: str, *, entropy: bool = False
) -> None:
    """Have workers write the log-probabilities that they compute as a field, and the entropy as ``<field>_entropy``."""
    asked = {"calculate_entropy": entropy, "compute_loss": False, "temperature": temperature, WRITTEN: field}
    compute(replace(batch, extra_info=batch.extra_info | asked))


def old_log_probs(
    batch: KVBatchMeta, compute: Callable[[KVBatchMeta], Any], temperature: float, settings: Mapping[str, Any]
) -> torch.Tensor:
    """Have workers write :func:`agentgym_rl.engine.verl.drift.response_fields`; returns the numbers of the rows.

    Args:
        settings: verl's ``algorithm.rollout_correction``.
    """
    asked: dict[str, Any] = {"calculate_entropy": True, "compute_loss": False, "temperature": temperature}
    asked |= {WRITTEN: "old_log_probs", "correction": settings}
    compute(replace(batch, extra_info=batch.extra_info | asked))
    return torch.stack([*get(batch, NUMBERS)[NUMBERS].unbind()])


def ratio_metrics(batch: KVBatchMeta) -> Metrics:
    """Drift between sampling and learning: :func:`agentgym_rl.engine.verl.drift_metrics.ratio_metrics` of a batch."""
    return ratios(get(batch, LOG_RATIO)[LOG_RATIO].values())


def metric_rows(tags: Sequence[Mapping[str, Any]]) -> TensorDict:
    """The numbers that verl's metrics read of rows without a critic whose tokens have one advantage; from their tags.

    Of prompts and responses there are the lengths, and of the mask as many tokens as the model wrote.
    """

    def numbers(name: str) -> torch.Tensor:
        return torch.tensor([tag[name] for tag in tags])

    def empty(name: str) -> torch.Tensor:
        lengths = numbers(name)
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        values = torch.zeros(int(offsets[-1]), dtype=torch.bool)
        return torch.nested.nested_tensor_from_jagged(values, offsets, max_seqlen=int(lengths.max()))

    own_tokens, advantages = numbers("own_tokens"), numbers("advantage").unsqueeze(-1)
    mask = torch.arange(int(own_tokens.max())) < own_tokens.unsqueeze(-1)
    each = advantages.expand(mask.shape)
    fields = {
        "prompts": empty("prompt_len"), "responses": empty("response_len"), "response_mask": mask, "advantages": each,
        "returns": each, "rm_scores": numbers("score").unsqueeze(-1), "num_turns": numbers("num_turns"),
    }  # fmt: skip
    return TensorDict(fields, batch_size=len(tags))


def get(batch: KVBatchMeta, *fields: str) -> Any:
    """Fields of the rows, those that they have."""
    return tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(fields))


def examples_of(keys: Sequence[str], partition_id: str) -> list[Example]:
    """The tokens of rows."""
    data = tq.kv_batch_get(keys=[*keys], partition_id=partition_id, select_fields=["input_ids", "response_mask"])
    rows = zip(data["input_ids"].unbind(), data["response_mask"].unbind(), strict=True)
    return [from_rollout(ids.tolist(), mask.tolist()) for ids, mask in rows]


def put(batch: KVBatchMeta, fields: dict[str, torch.Tensor]) -> KVBatchMeta:
    """The batch with more fields, and the tags that it has here."""
    rows = TensorDict(fields, batch_size=len(batch))
    tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=rows)
    return KVBatchMeta(partition_id=batch.partition_id, keys=batch.keys, tags=batch.tags)
