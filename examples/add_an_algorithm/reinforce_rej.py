"""An algorithm of one's own: REINFORCE on tasks that are neither always nor never solved.

    .venv/bin/pip install --no-deps --no-build-isolation -e examples/add_an_algorithm
    agentgym-rl train experiment=smoke algorithm=grpo algorithm.name=reinforce_rej

After Reinforce-Rej (arXiv 2504.11343). An episode's advantage is 1 where it earned something and -1 where it did not. A
task whose episodes all ended alike teaches nothing and counts 0. Departure: the loss is PPO's clipped one.
"""

from collections import defaultdict
from collections.abc import Sequence

from agentgym_rl.algorithms import Algorithm


def advantages(rewards: Sequence[float], groups: Sequence[str]) -> list[float]:
    """One number for each episode; ``groups`` says which episodes played the same task."""
    outcomes: dict[str, set[bool]] = defaultdict(set)
    for reward, group in zip(rewards, groups, strict=True):
        outcomes[group].add(reward > 0)
    return [
        0.0 if len(outcomes[group]) == 1 else 1.0 if reward > 0 else -1.0
        for reward, group in zip(rewards, groups, strict=True)
    ]


REINFORCE_REJ = Algorithm(name="reinforce_rej", estimator="reinforce_rej", grouped=True, advantages=advantages)
