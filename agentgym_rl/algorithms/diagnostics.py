r"""Signs of trouble in what a policy gradient learns from; ``docs/stability.md`` says what to do about them.

Template collapse (RAGEN-2, arXiv 2604.06268): responses vary, and entropy is high, but no longer depend on the task.
RAGEN-2 measures the mutual information of prompt and response by scoring every response under every prompt with the
policy. :func:`mutual_information` needs no further pass of the model. It takes a word :math:`W` drawn at random from a
random episode of a task :math:`X`,

.. math:: I = H(X) + H(W) - H(X, W)

which is the information that a word gives of the task, and corrects it for chance. :math:`I` is positive even where
responses do not depend on the task, because each task has few episodes. With :math:`E` its mean over random
assignments of the episodes to the tasks, as many to each,

.. math:: M = (I - E) / (H(X) - E)

is about 0 where responses depend on the task no more than chance has it, and at most 1, where no word is used in two
tasks (the adjusted mutual information of Vinh et al., JMLR 11, 2010, with whole episodes assigned). It is taken within
environments: that responses tell an environment from another does not count. It is blind to the order of words.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain
from math import log
from random import Random
from statistics import fmean

from agentgym_rl.algorithms.base import Metrics
from agentgym_rl.algorithms.groups import uneven
from agentgym_rl.data.episode import Episode

SHUFFLES = 10
"""Random assignments that the chance level is a mean of."""
MOST = 1_000
"""Episodes that :math:`M` is taken of at most, in groups of one size; of a larger step every n-th task is taken."""

Shares = list[tuple[str, float]]
"""Words and how much each is of all."""


def diagnostics(groups: Sequence[Sequence[Episode]]) -> Metrics:
    """Of the episodes of a step, in whatever order they ended.

    Args:
        groups: the episodes of each task with the rewards that are learned from.
    """
    groups = _ordered(groups)
    episodes = list(chain.from_iterable(groups))
    turns = list(chain.from_iterable(episode.turns for episode in episodes))
    compared = [group for group in groups if len(group) > 1]
    metrics: Metrics = {}
    if compared:
        metrics["diagnostics/gradient_share"] = fmean(
            uneven([episode.reward for episode in group]) for group in compared
        )
    if turns:
        metrics["diagnostics/invalid_turns"] = fmean(turn.invalid for turn in turns)
        metrics["diagnostics/response_tokens"] = fmean(turn.tokens[1] - turn.tokens[0] for turn in turns)
    stride = -(-len(episodes) // MOST)
    information = mutual_information(list(chain.from_iterable(groups[:: max(1, stride)])))
    if information is not None:
        metrics["diagnostics/mutual_information"] = information
    return metrics


def _ordered(groups: Sequence[Sequence[Episode]]) -> list[Sequence[Episode]]:
    """Groups by environment and task; by their words only where a task has several."""
    of_task: dict[tuple[str, str], list[Sequence[Episode]]] = defaultdict(list)
    for group in filter(None, groups):
        of_task[min((episode.env, episode.item_id) for episode in group)].append(group)
    ordered: list[Sequence[Episode]] = []
    for _, same_task in sorted(of_task.items()):
        ordered += same_task if len(same_task) == 1 else sorted(same_task, key=lambda group: sorted(map(_place, group)))
    return ordered


def mutual_information(episodes: Sequence[Episode]) -> float | None:
    """:math:`M` of task and response; None where it is not defined.

    That is where no environment has two tasks of which one has two episodes, or no two episodes share a word. The order
    of the episodes has no effect.
    """
    placed = sorted(map(_place, episodes))
    envs, tasks = [env for env, _, _ in placed], [task for _, task, _ in placed]
    words = [[(word, share / len(placed)) for word, share in shares] for _, _, shares in placed]
    places: dict[str, list[int]] = defaultdict(list)
    for place, env in enumerate(envs):
        places[env].append(place)
    rng, chance = Random(0), []
    for _ in range(SHUFFLES):
        dealt = list(tasks)
        for of_env in places.values():
            for place, drawn in zip(of_env, rng.sample(of_env, len(of_env)), strict=True):
                dealt[place] = tasks[drawn]
        chance.append(_entropy(dealt, words))
    present, least = _entropy(tasks, words), _entropy(envs, words)
    repeated = any(len(of_env) > len({tasks[place] for place in of_env}) > 1 for of_env in places.values())
    # H(X) and H(W) are the same for every assignment, so that both differences are differences of H(X, W)
    span = fmean(chance) - least
    return (fmean(chance) - present) / span if repeated and span > 1e-9 else None


def _place(episode: Episode) -> tuple[str, str, Shares]:
    """Sorts episodes; equal ones have the same task and words."""
    return episode.env, episode.item_id, _words(episode)


def _words(episode: Episode) -> Shares:
    """The share of each word in the responses of an episode, sorted by word."""
    counts = Counter(chain.from_iterable(turn.response.split() for turn in episode.turns)) or Counter([""])
    total = counts.total()
    return [(word, count / total) for word, count in sorted(counts.items())]


def _entropy(labels: Sequence[str], words: Sequence[Shares]) -> float:
    """Joint entropy of a label and a word, in nats; the shares of all words are 1 together."""
    joint: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for label, shares_of_words in zip(labels, words, strict=True):
        shares = joint[label]
        for word, share in shares_of_words:
            shares[word] += share
    return -sum(share * log(share) for shares in joint.values() for share in shares.values())
