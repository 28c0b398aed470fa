"""The loss of preferences (DPO, arXiv 2305.18290, equation 7)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def episode_log_probs(log_probs: Tensor, loss_mask: Tensor) -> Tensor:
    """[rows]: sum of the log-probabilities of the tokens with loss.

    Args:
        log_probs: jagged [rows, tokens]; at each place that of the token after it, as verl's workers give it.
        loss_mask: jagged [rows, tokens]; 0 on the first token of a row.
    """
    rows = zip(log_probs.unbind(), loss_mask.unbind(), strict=True)
    return torch.stack([(values[:-1] * mask[1:]).sum() for values, mask in rows])


def preference_loss(log_probs: Tensor, reference: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
    """[pairs] twice: DPO's loss (arXiv 2305.18290, equation 7), and the margin that it is the log-sigmoid of.

    Args:
        log_probs: [rows], of whole episodes; rows 2i and 2i + 1 are the preferred and the rejected one of a pair.
        reference: [rows], those under the reference policy.
    """
    preferred, rejected = (log_probs - reference).view(-1, 2).unbind(1)
    margin = beta * (preferred - rejected)
    return -logsigmoid(margin), margin
