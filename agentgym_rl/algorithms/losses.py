r"""The loss of a policy update on each token, by the word of ``algorithm.policy_loss``.

With :math:`\rho = \pi_\theta / \pi_{old}` of a token, its advantage :math:`A` and clipping to
:math:`[1 - \epsilon, 1 + \epsilon_{high}]`,

=======  ==============================================================================================================
vanilla  :math:`\max(-\rho A, -\mathrm{clip}(\rho) A)` (PPO, arXiv 1707.06347, equation 7), and for :math:`A < 0` at
         most :math:`-c A` (dual clip, arXiv 1912.09729, equation 5)
gspo     the same without dual clip, with the geometric mean of :math:`\rho` over the sequence for :math:`\rho`; the
         gradient is that of each token (GSPO-token, arXiv 2507.18071, equations 7 and 14)
turn     the same with the geometric mean over the tokens of a turn, so that a turn is clipped as one decision (the
         chunks of ROME, arXiv 2512.24873)
cispo    :math:`-\mathrm{sg}[\mathrm{clip}(\rho)] A \log \pi_\theta` (arXiv 2506.13585, equation 4)
sapo     :math:`-\frac{4}{\tau} \sigma(\tau (\rho - 1)) A`, :math:`\tau` 1 for :math:`A > 0` and 1.05 otherwise (arXiv
         2511.20347, equations 5 and 6)
=======  ==============================================================================================================

A sequence is one segment of an episode. What is made of the tokens of an update is :func:`token_weights`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import logsigmoid

from agentgym_rl.algorithms.policy_gradient import LossAggregation, PolicyLoss

TAU_POSITIVE, TAU_NEGATIVE = 1.0, 1.05
"""SAPO's temperatures."""
LARGEST = 20.0
"""Bound on the logarithm of a ratio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """How far the ratio may move."""

    low: float
    high: float
    dual: float
    """c of the dual clip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What a loss is computed from; tensors of shape [rows, tokens]."""

    log_prob: torch.Tensor
    """Of the policy that learns, with gradient."""
    old_log_prob: torch.Tensor
    advantages: torch.Tensor
    """Also [rows, 1], where all tokens of a row have the same."""
    mask: torch.Tensor
    """1 on the tokens that the model wrote."""
    turns: torch.Tensor | None = None
    """Number of the turn of each token; only for ``turn``."""

    @property
    def log_ratio(self) -> torch.Tensor:
        return torch.clamp(self.log_prob - self.old_log_prob, -LARGEST, LARGEST)


def policy_loss(kind: PolicyLoss, tokens: Tokens, clip: Clip) -> tuple[torch.Tensor, torch.Tensor]:
    """[rows, tokens] twice: the loss of each token, and whether its ratio was outside the clip range."""
    return LOSSES[kind](tokens, clip)


def _clipped(log_ratio: torch.Tensor, tokens: Tokens, clip: Clip) -> tuple[torch.Tensor, torch.Tensor]:
    ratio = log_ratio.exp()
    free = -tokens.advantages * ratio
    bound = -tokens.advantages * ratio.clamp(1 - clip.low, 1 + clip.high)
    return torch.maximum(free, bound), bound > free


def _vanilla(tokens: Tokens, clip: Clip) -> tuple[torch.Tensor, torch.Tensor]:
    loss, outside = _clipped(tokens.log_ratio, tokens, clip)
    most = torch.where(tokens.advantages < 0, -tokens.advantages * clip.dual, torch.inf)
    return torch.minimum(loss, most), outside | (loss > most)


def _pooled(groups: torch.Tensor, tokens: Tokens, clip: Clip) -> tuple[torch.Tensor, torch.Tensor]:
    """The clipped loss with the mean log-ratio of each group of tokens; ``groups`` numbers them in each row, from 0."""
    mask = tokens.mask.to(tokens.log_prob.dtype)
    log_ratio = (tokens.log_prob - tokens.old_log_prob).detach() * mask
    sums = torch.zeros(len(groups), int(groups.max()) + 1, dtype=mask.dtype, device=mask.device)
    mean = sums.scatter_add(1, groups, log_ratio) / sums.scatter_add(1, groups, mask).clamp(min=1)
    own = tokens.log_prob - tokens.log_prob.detach()
    return _clipped((own + mean.gather(1, groups)).clamp(-LARGEST, LARGEST), tokens, clip)


def _gspo(tokens: Tokens, clip: Clip) -> tuple[torch.Tensor, torch.Tensor]:
    return _pooled(torch.zeros_like(tokens.mask, dtype=torch.int64), tokens, clip)


def _turn(tokens: Tokens, clip: Clip) -> tuple[torch.Tensor, torch.Tensor]:
    assert tokens.turns is not None, "policy_loss=turn needs the turn of each token"
    return _pooled(tokens.turns.to(torch.int64), tokens, clip)


def _cispo(tokens: Tokens, clip: Clip) -> tuple[torch.Tensor, torch.Tensor]:
    ratio = tokens.log_ratio.exp().detach()
    bound = ratio.clamp(1 - clip.low, 1 + clip.high)
    return -bound * tokens.advantages * tokens.log_prob, bound != ratio


def _sapo(tokens: Tokens, clip: Clip) -> tuple[torch.Tensor, torch.Tensor]:
    tau = torch.where(tokens.advantages > 0, TAU_POSITIVE, TAU_NEGATIVE)
    gate = torch.sigmoid(tau * (tokens.log_ratio.exp() - 1)) * 4 / tau
    return -gate * tokens.advantages, torch.zeros_like(tokens.mask, dtype=torch.bool)


LOSSES: dict[PolicyLoss, Callable[[Tokens, Clip], tuple[torch.Tensor, torch.Tensor]]] = {
    PolicyLoss.VANILLA: _vanilla,
    PolicyLoss.GSPO: _gspo,
    PolicyLoss.TURN: _turn,
    PolicyLoss.CISPO: _cispo,
    PolicyLoss.SAPO: _sapo,
}


def token_weights(
    own: Sequence[int],
    episodes: Sequence[str],
    updates: Sequence[int],
    aggregation: LossAggregation,
    longest: int,
) -> torch.Tensor:
    """[rows]: the weight of each of the model's own tokens of a row in the loss of its update.

    Tokens and episodes are counted in the update itself: rows without a token of the model's, such as padding, take no
    part, and an episode of several rows weighs as much as one of a single row.

    Args:
        own: number of the tokens of each row that the model wrote.
        episodes: the episode of each row.
        updates: the update of each row.
        longest: most tokens of a response, for ``seq-mean-token-sum-norm``.
    """
    rows = list(zip(updates, episodes, own, strict=True))
    tokens, length = Counter[int](), Counter[tuple[int, str]]()
    for update, episode, number in rows:
        tokens[update] += number
        length[update, episode] += number
    many = Counter(update for (update, _), number in length.items() if number)

    def count(update: int, episode: str) -> int:
        """What the sum over the tokens of a row is divided by."""
        match aggregation:
            case LossAggregation.TOKEN_MEAN:
                return tokens[update]
            case LossAggregation.SEQ_MEAN_TOKEN_SUM:
                return many[update]
            case LossAggregation.SEQ_MEAN_TOKEN_MEAN:
                return many[update] * length[update, episode]
            case LossAggregation.SEQ_MEAN_TOKEN_SUM_NORM:
                return many[update] * longest

    return torch.tensor([1.0 / count(update, episode) if number else 0.0 for update, episode, number in rows])


def episode_log_probs(log_probs: torch.Tensor, loss_mask: torch.Tensor) -> torch.Tensor:
    """[rows]: sum of the log-probabilities of the tokens with loss.

    Args:
        log_probs: jagged [rows, tokens]; at each place that of the token after it, as verl's workers give it.
        loss_mask: jagged [rows, tokens]; 0 on the first token of a row.
    """
    rows = zip(log_probs.unbind(), loss_mask.unbind(), strict=True)
    return torch.stack([(values[:-1] * mask[1:]).sum() for values, mask in rows])


def preference_loss(
    log_probs: torch.Tensor, reference: torch.Tensor, beta: float | torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """[pairs] twice: DPO's loss (arXiv 2305.18290, equation 7), and the margin that it is the log-sigmoid of.

    Args:
        log_probs: [rows], of whole episodes; rows 2i and 2i + 1 are the preferred and the rejected one of a pair.
        reference: [rows], those under the reference policy.
    """
    preferred, rejected = (log_probs - reference).view(-1, 2).unbind(1)
    margin = beta * (preferred - rejected)
    return -logsigmoid(margin), margin
