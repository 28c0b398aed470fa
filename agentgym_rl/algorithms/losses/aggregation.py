"""How the losses of tokens become that of an update."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from enum import StrEnum


class Aggregation(StrEnum):
    """``algorithm.loss.aggregation``.

    ``seq`` stands for the episode, whatever its number of segments. ``token-mean``: mean over tokens. The others: mean
    over episodes of the sum of their tokens, of the mean of their tokens, or of the sum divided by the greatest length
    of a response (Dr. GRPO).
    """

    TOKEN_MEAN = "token-mean"
    SEQ_MEAN_TOKEN_SUM = "seq-mean-token-sum"
    SEQ_MEAN_TOKEN_MEAN = "seq-mean-token-mean"
    SEQ_MEAN_TOKEN_SUM_NORM = "seq-mean-token-sum-norm"


def token_weights(
    own_tokens: Sequence[float], episodes: Sequence[str], updates: Sequence[int], aggregation: Aggregation, longest: int
) -> list[float]:
    """The weight of each of the model's own tokens of a row in the loss of its update, one number a row.

    Tokens and episodes are counted in the update itself: rows without a token of the model's, such as padding, take no
    part, and an episode of several rows weighs as much as one of a single row.

    Args:
        own_tokens: number of the tokens of each row that the model wrote, or the sum of their weights.
        episodes: the episode of each row.
        updates: the update of each row.
        longest: most tokens of a response, for ``seq-mean-token-sum-norm``.
    """
    rows = list(zip(updates, episodes, own_tokens, strict=True))
    tokens, length = defaultdict[int, float](float), defaultdict[tuple[int, str], float](float)
    for update, episode, number in rows:
        tokens[update] += number
        length[update, episode] += number
    many = Counter(update for (update, _), number in length.items() if number)

    def count(update: int, episode: str) -> float:
        """The divisor of the sum over the tokens of a row."""
        match aggregation:
            case Aggregation.TOKEN_MEAN:
                return tokens[update]
            case Aggregation.SEQ_MEAN_TOKEN_SUM:
                return many[update]
            case Aggregation.SEQ_MEAN_TOKEN_MEAN:
                return many[update] * length[update, episode]
            case Aggregation.SEQ_MEAN_TOKEN_SUM_NORM:
                return many[update] * longest

    return [1.0 / count(update, episode) if number else 0.0 for update, episode, number in rows]
