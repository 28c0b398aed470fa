"""Rows of verl's TransferQueue: which segment of which episode each holds, which update takes it, and what is written.

The key of a row is ``<uid of the prompt>_<session>_<segment>``; a session is one episode. The key of a prompt, its uid,
has the episodes themselves, which the driver alone reads: workers fetch all that their rows have, in every pass.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
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
from agentgym_rl.algorithms.losses.aggregation import token_weights
from agentgym_rl.algorithms.losses.base import Loss
from agentgym_rl.algorithms.rows import PerToken, Row, Stream
from agentgym_rl.data.episode import Episode, Turn
from agentgym_rl.engine.verl.drift import LOG_RATIO, NUMBERS
from agentgym_rl.engine.verl.drift_metrics import ratio_metrics as ratios

EPISODES = "episodes"
"""Field of a prompt: its episodes in the order of their sessions."""
VALUE_MASK = "value_mask"
"""Field of the rows: 1 where the critic learns."""
FIELDS = {"advantage": "advantages", "return": "returns", "value": "values", "observation": "observation_weight"}
"""Field of the rows by stream, where verl or its passes over tokens have a name for it; ``observation_weight`` is 0 on
the tokens of responses."""
LOSS_WEIGHT = "loss_weight"
"""Field of the rows, one number each: weight of each of the model's own tokens in the loss of its update."""
WRITTEN = "written"
"""What a batch tells workers: the field that log-probabilities of responses become, in place of those of all tokens."""


class NothingToLearn(RuntimeError):
    """No episode of a batch can be learned from."""


def field_of(stream: str) -> str:
    """The field that has a stream."""
    return FIELDS.get(stream, f"stream_{stream}")


def session_of(key: str) -> str:
    """What the segments of an episode have in common."""
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
        for prompt, own in zip(prompts, packed, strict=True)
        for session, episode in enumerate(pickle.loads(own))
    }


def episodes_of_rows(keys: Sequence[str], partition_id: str) -> dict[str, Episode]:
    """Episodes by session, which verl's own agent loops leave in the rows: the last segment of each brings one."""
    data = tq.kv_batch_get(keys=[*keys], partition_id=partition_id, select_fields=["extra_fields"])
    fields = [getattr(value, "data", value) for value in data["extra_fields"]]  # as above
    return {
        session_of(key): Episode.from_dict(one["episode"])  # the queue makes a dictionary of it
        for key, one in zip(keys, fields, strict=True)
        if one["episode"]
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
    kept: dict[str, list[str]] = {}
    for key in batch.keys:
        kept.setdefault(session_of(key), []).append(key)
    return [
        Rollout(episode=episodes[session], group=prompt_of(session), key=session, kept=sorted(own, key=segment_of))
        for session, own in kept.items()
    ]


def without_singletons(batch: KVBatchMeta, *, may_be_empty: bool = False) -> KVBatchMeta:
    """The batch without the episodes that are the only one of their prompt.

    Raises:
        NothingToLearn: none is left, unless the batch may be empty.
    """
    sessions = list(dict.fromkeys(session_of(key) for key in batch.keys))
    size = Counter(prompt_of(session) for session in sessions)
    kept = {key for key in batch.keys if size[prompt_of(session_of(key))] > 1}
    if not kept and not may_be_empty:
        raise NothingToLearn(
            f"each of the {len(sessions)} episodes of this step is the only one of its task that counts; "
            "set algorithm.samples_per_task to 2 or more"
        )
    return only(batch, kept)


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
        min(shares, key=lambda own: (len(own), sum(map(len, own)))).append(groups[prompt])
    return [[*chain.from_iterable(own)] for own in shares]


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
        own = [place[key] for key in share]
        own += [padding.pop() for _ in range(size - len(own))]
        update_of |= dict.fromkeys((batch.keys[index] for index in own), number)
        loads = calculate_workload(torch.tensor([batch.tags[index]["seq_len"] for index in own]))
        parts = get_seqlen_balanced_partitions(loads, k_partitions=workers, equal_size=True)
        for chunk, part in zip(chunks, parts, strict=True):
            chunk += [own[at] for at in part]
    batch.reorder([index for chunk in chunks for index in chunk])
    return update_of


def log_probs_of(batch: KVBatchMeta, compute: Callable[[KVBatchMeta], Any], temperature: float) -> None:
    """Have workers write the log-probabilities that they compute as those of the reference policy, ``ref_log_prob``."""
    asked = {"calculate_entropy": False, "compute_loss": False, "temperature": temperature, WRITTEN: "ref_log_prob"}
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


def write_rewards(batch: KVBatchMeta, rows: Mapping[str, Row]) -> None:
    """Put the reward of each row, its stream of that name, on its last token, field ``rm_scores``."""
    scores = [row.clone() for row in get(batch, "rm_scores")["rm_scores"].unbind()]
    for key, tag, score in zip(batch.keys, batch.tags, scores, strict=True):
        if key in rows:  # others are padding
            score[-1] = tag["score"] = rows[key].streams["reward"]
    put(batch, {"rm_scores": torch.nested.as_nested_tensor(scores, layout=torch.jagged)})


def ratio_metrics(batch: KVBatchMeta) -> Metrics:
    """Drift between sampling and learning: :func:`agentgym_rl.engine.verl.drift_metrics.ratio_metrics` of a batch."""
    return ratios(get(batch, LOG_RATIO)[LOG_RATIO].values())


def advantage_metrics(batch: KVBatchMeta, rows: Mapping[str, Row]) -> Metrics:
    """Mean absolute advantage of the tokens in the first, middle and last third of the turns of their episodes.

    A turn belongs to the third that its middle is in, so that a single turn is in the middle.
    """

    def thirds(row: Row) -> list[float]:
        many = len(turns_of(row))
        return [1 + 3 * (2 * turn + 1) // (2 * many) for turn in range(many)]

    data = get(batch, "advantages", "loss_mask")
    place = over_tokens(batch, rows, thirds).values() * data["loss_mask"].values()
    size = each_token(data["advantages"], data["loss_mask"]).values().abs()
    names = ("diagnostics/advantage_first", "diagnostics/advantage_middle", "diagnostics/advantage_last")
    return {
        name: float(size[place == third].mean()) for third, name in enumerate(names, start=1) if (place == third).any()
    }


def metric_rows(tags: Sequence[Mapping[str, Any]]) -> TensorDict:
    """What verl's metrics read of rows whose tokens have one advantage, and no critic; by the tags of the rows alone.

    Of prompts and responses there are the lengths, and of the mask as many tokens as the model wrote.
    """

    def numbers(name: str) -> torch.Tensor:
        return torch.tensor([tag[name] for tag in tags])

    def empty(name: str) -> torch.Tensor:
        lengths = numbers(name)
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        values = torch.zeros(int(offsets[-1]), dtype=torch.bool)
        return torch.nested.nested_tensor_from_jagged(values, offsets, max_seqlen=int(lengths.max()))

    own, advantages = numbers("own_tokens"), numbers("advantage").unsqueeze(-1)
    mask = torch.arange(int(own.max())) < own.unsqueeze(-1)
    each = advantages.expand(mask.shape)
    fields = {
        "prompts": empty("prompt_len"), "responses": empty("response_len"), "response_mask": mask, "advantages": each,
        "returns": each, "rm_scores": numbers("score").unsqueeze(-1), "num_turns": numbers("num_turns"),
    }  # fmt: skip
    return TensorDict(fields, batch_size=len(tags))


def turn_values(batch: KVBatchMeta, rollouts: Sequence[Rollout]) -> None:
    """Give rollouts the critic's value before each response, from the field ``values``."""
    values = _padded(get(batch, "values", "response_mask"), "values")
    row_of = _row_of(batch)
    for rollout in rollouts:
        starts = [(row_of[rollout.key, turn.segment], turn.tokens[0]) for turn in rollout.episode.turns]
        rollout.values = [float(values[start]) for start in starts]


def write(
    batch: KVBatchMeta, rows: Mapping[str, Row], loss: Loss[Any], update_of: Mapping[str, int], longest: int
) -> KVBatchMeta:
    """Write the streams of rows, and the weights of their tokens, as fields of a batch.

    Little is read and written, because training waits meanwhile: weights, and streams of one number, are one number a
    row. Streams of turns are also on tokens that the model did not write, where a mask is 0 and nobody looks.

    Args:
        rows: by key; other keys of the batch are padding.
        update_of: see :func:`arrange`.
        longest: most tokens of a response.

    Returns:
        The batch with the new fields, which workers are given.
    """
    mask = cache(lambda: get(batch, "loss_mask")["loss_mask"])
    names = set(next(iter(rows.values())).streams) - {"reward"}
    fields = {field_of(name): _stream(batch, rows, name) for name in names}
    if "turn" in loss.streams:
        fields[field_of("turn")] = over_tokens(batch, rows, lambda row: range(len(turns_of(row))))
    if "advantage" not in loss.streams:  # verl's metrics read some
        fields["advantages"] = torch.zeros(len(batch))
    if (advantages := fields.get("advantages")) is not None and not advantages.is_nested:
        for tag, advantage in zip(batch.tags, advantages.tolist(), strict=True):
            tag["advantage"] = advantage
    if "value" in names:
        dtype = get(batch, "values")["values"].dtype  # the queue drops a field of another one, and only logs it
        fields["values"] = each_token(fields["values"], mask()).to(dtype)
    if "return" in names:
        fields["returns"] = each_token(fields["returns"], mask())
        fields[VALUE_MASK] = jagged(_learned_values(batch, rows) * mask().values(), batch)
    if "observation" in names:
        weight = each_token(fields[field_of("observation")], mask()).values()
        fields[field_of("observation")] = jagged(weight * (1 - mask().values()), batch)
    own = [0.0 if tag.get("is_padding", False) else tag["own_tokens"] for tag in batch.tags]
    if loss.divided_by is not None:
        own = _sums(batch, fields[field_of(loss.divided_by)], own, mask)
    sessions, updates = [session_of(key) for key in batch.keys], [update_of[key] for key in batch.keys]
    weights = token_weights(own, sessions, updates, loss.config.aggregation, longest)
    return put(batch, fields | {LOSS_WEIGHT: torch.tensor(weights)})


def _stream(batch: KVBatchMeta, rows: Mapping[str, Row], name: str) -> torch.Tensor:
    """A stream of the rows: [rows] where each has one number, else jagged [rows, tokens]; 0 on padding."""
    of_rows = [rows[key].streams[name] if key in rows else 0.0 for key in batch.keys]
    if any(isinstance(stream, Sequence) for stream in of_rows):
        return over_tokens(batch, rows, lambda row: row.streams[name])
    return torch.tensor(of_rows, dtype=torch.float32)


def _sums(
    batch: KVBatchMeta, values: torch.Tensor, own: Sequence[float], mask: Callable[[], torch.Tensor]
) -> list[float]:
    """The sum of a stream over the model's own tokens of each row, of which ``own`` are the numbers."""
    if not values.is_nested:
        return [value * number for value, number in zip(values.tolist(), own, strict=True)]
    return [float(row.sum()) for row in jagged(values.values() * mask().values(), batch).unbind()]


@contextmanager
def critic_learns_where_told(batch: KVBatchMeta) -> Iterator[None]:
    """Inside, the masks of the rows are 1 only where the critic learns, for verl's value loss and its mean."""
    names = ["response_mask", "loss_mask"]
    data = get(batch, *names, VALUE_MASK)
    put(batch, {name: data[VALUE_MASK].to(data[name].dtype) for name in names})
    yield
    put(batch, {name: data[name] for name in names})


def each_token(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Jagged [rows, tokens] as ``like``: values that are already, or one number a row for each of its tokens."""
    return values if values.is_nested else torch.ones_like(like, dtype=values.dtype) * values.unsqueeze(-1)


def over_tokens(batch: KVBatchMeta, rows: Mapping[str, Row], of: Callable[[Row], Stream]) -> torch.Tensor:
    """Jagged [rows, tokens]: a stream of each row on the tokens of its responses, one after the other.

    Of one number a turn, a turn has its own up to the last token of its response. What stands between two responses
    belongs to the turn that follows: observations, and notes that the model writes when its context is folded. Rows of
    padding have 0.
    """
    every: list[tuple[float, int]] = []
    for key, tag in zip(batch.keys, batch.tags, strict=True):
        every += pieces(rows[key], of(rows[key]), tag) if key in rows else [(0.0, tag["response_len"])]
    values, lengths = zip(*every, strict=True)
    return jagged(torch.repeat_interleave(torch.tensor(values, dtype=torch.float32), torch.tensor(lengths)), batch)


def pieces(row: Row, stream: Stream, tag: Mapping[str, int]) -> list[tuple[float, int]]:
    """A stream on the tokens of a row from its first response on: numbers, and how many tokens have them.

    Raises:
        ValueError: it has one number a token, and not as many as there are.
    """
    width = tag["response_len"]
    if isinstance(stream, PerToken):
        if len(stream) != tag["seq_len"]:
            raise ValueError(f"a stream has {len(stream)} numbers for the {tag['seq_len']} tokens of {row.segment}")
        return [(value, 1) for value in stream[-width:]]
    if isinstance(stream, Sequence):
        return of_segment(turns_of(row), stream, row.number, width)
    return [(stream, width)]


def turns_of(row: Row) -> Sequence[Turn]:
    """The turns of its episode."""
    return () if row.episode is None else row.episode.turns


def jagged(values: torch.Tensor, batch: KVBatchMeta) -> torch.Tensor:
    """Jagged [rows, tokens] of the values of all tokens of the responses, one row after the other."""
    rows = torch.split(values, [tag["response_len"] for tag in batch.tags])
    return torch.nested.as_nested_tensor([*rows], layout=torch.jagged)


def of_segment(turns: Sequence[Turn], numbers: Sequence[float], segment: int, width: int) -> list[tuple[float, int]]:
    """Numbers and how many tokens have them: up to the end of each turn its own; behind the last that of the next."""
    pieces: list[tuple[float, int]] = []
    begin = 0
    for turn, number in zip(turns, numbers, strict=True):
        if turn.segment == segment:
            pieces.append((number, turn.tokens[1] - begin))
            begin = turn.tokens[1]
    behind = [number for turn, number in zip(turns, numbers, strict=True) if turn.segment > segment] or [*numbers[-1:]]
    return [*pieces, (behind[0] if behind else 0.0, width - begin)]


def _learned_values(batch: KVBatchMeta, rows: Mapping[str, Row]) -> torch.Tensor:
    """[tokens of all rows]: 1 where the critic learns: on the first token of each response, or on all tokens."""
    of_rows = [torch.zeros(tag["response_len"], dtype=torch.int64) for tag in batch.tags]
    for key, starts in zip(batch.keys, of_rows, strict=True):
        if key not in rows:
            continue
        if isinstance(rows[key].streams["return"], PerToken):
            starts[:] = 1
        for turn in turns_of(rows[key]):
            if turn.segment == rows[key].number:
                starts[turn.tokens[0]] = 1
    return torch.cat(of_rows)


def _row_of(batch: KVBatchMeta) -> Mapping[tuple[str, int], int]:
    """The row of each session and segment."""
    return {(session_of(key), segment_of(key)): row for row, key in enumerate(batch.keys)}


def get(batch: KVBatchMeta, *fields: str) -> Any:
    """Fields of the rows, those that they have."""
    return tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(fields))


def put(batch: KVBatchMeta, fields: dict[str, torch.Tensor]) -> KVBatchMeta:
    """The batch with more fields, and the tags that it has here."""
    rows = TensorDict(fields, batch_size=len(batch))
    tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=rows)
    return KVBatchMeta(partition_id=batch.partition_id, keys=batch.keys, tags=batch.tags)


def _padded(data: TensorDict, field: str) -> torch.Tensor:
    padded: torch.Tensor = data[field].to_padded_tensor(0)
    return padded
