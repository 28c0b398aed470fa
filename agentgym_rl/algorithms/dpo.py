r"""Direct preference optimisation (arXiv 2305.18290) on pairs of a successful and a failed episode of the same task.

.. math:: L = - \log \sigma\Big(\beta \Big[\log \frac{\pi_\theta(\tau^+)}{\pi_{ref}(\tau^+)}
          - \log \frac{\pi_\theta(\tau^-)}{\pi_{ref}(\tau^-)}\Big]\Big)

with :math:`\log \pi(\tau)` summed over the tokens the model wrote: what the world said has the same probability under
both policies and cancels. :math:`\beta` is ``algorithm.beta``. A step plays ``tasks`` x ``samples`` episodes, forms up
to ``pairs_per_task`` pairs a task and takes ``epochs`` passes over them, ``minibatch`` pairs an update.

Departures: the paper learns offline from fixed pairs with a fixed reference. Here each step plays with the current
policy, which is also the reference of that step, as in iterative preference optimisation (arXiv 2404.19733); success
takes the place of an annotator. The first update of a step therefore starts at a margin of 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random

from agentgym_rl.algorithms.core import Algorithm
from agentgym_rl.data.episode import Episode

DPO = Algorithm(name="dpo", grouped=True, preferences=True)


def pairs(episodes: Sequence[Episode], per_task: int, seed: str) -> list[tuple[int, int]]:
    """Indices of (preferred, rejected) episodes: the shortest success of a task and up to ``per_task`` of its failures.

    Of successes with as few turns the first played is taken; which failures is drawn by ``seed`` and the task.
    Episodes that failed outside the agent are nobody's.
    """
    won: dict[str, list[int]] = defaultdict(list)
    lost: dict[str, list[int]] = defaultdict(list)
    for index, episode in enumerate(episodes):
        if episode.ending.counts:
            (won if episode.success else lost)[episode.item_id].append(index)
    found: list[tuple[int, int]] = []
    for task, winners in won.items():
        best = min(winners, key=lambda index: len(episodes[index].turns))
        losers = Random(f"{seed}:{task}").sample(lost[task], min(per_task, len(lost[task])))
        found += [(best, loser) for loser in losers]
    return found
