r"""Distillation from a teacher on the policy's own episodes: reverse KL, token by token (on-policy distillation,
arXiv 2306.13649; the policy as its own teacher, arXiv 2601.18734 and 2601.19897).

The advantage of a token is the teacher's log-probability of it less the policy's own,

.. math:: A_t = \log \pi_{teacher}(a_t | h, s_t) - \log \pi_{old}(a_t | s_t),

so that the expected update lowers the reverse KL divergence to the teacher. Rewards take no part. The loss is that of
``algorithm.loss``, with these advantages.

``algorithm.teacher`` says whose weights teach, and ``algorithm.hint`` what they read before the first observation,
:math:`h`, which the policy does not. An episode is left out of the update where its task has no hint, or the hint does
not fit into the context beside it; ``distill/taught`` is the share of the others.

Departures: no term for the whole distribution over the vocabulary, and no mixture with the teacher's own episodes.
Those are demonstrations, which ``agentgym-rl collect --policy`` writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial

from agentgym_rl.algorithms import hint
from agentgym_rl.algorithms.base import Metrics, Needs, Rollout, Run
from agentgym_rl.algorithms.config import PolicyGradientConfig, within
from agentgym_rl.algorithms.hint import Hint
from agentgym_rl.algorithms.losses.reverse_kl import TEACHER, ReverseKL
from agentgym_rl.algorithms.model import POLICY, START, Model
from agentgym_rl.algorithms.other_prompt import behind
from agentgym_rl.algorithms.policy_gradient import PolicyGradient
from agentgym_rl.algorithms.rows import Row, Stream
from agentgym_rl.rollout.playbook import Playbook


@dataclass(kw_only=True)
class DistillConfig(PolicyGradientConfig):
    """Keys of ``algorithm=distill``."""

    teacher: str = START
    """Whose weights teach: ``start`` (the policy as the stage began), ``policy`` (as it is), ``loaded`` (as loaded,
    before cloning), or the folder of a run, a checkpoint or a Hugging Face model, of the policy's size and
    vocabulary."""
    hint: Hint = Hint.PLAN
    """What the teacher reads before the first observation: nothing (none), the commands of the environment's oracle
    (plan), or lessons (playbook). With none, rows stay with the engine, in any ``engine.mode``."""
    playbook: str | None = None
    """hint=playbook: the file of lessons, a playbook of ``agentgym-rl learn``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hint is Hint.NONE and self.teacher in (START, POLICY):
            raise ValueError(
                f"teacher={self.teacher} without a hint is the policy itself, which has nothing to teach; "
                "give a folder, or hint=plan"
            )
        if self.hint is Hint.PLAYBOOK and self.playbook is None:
            raise ValueError("hint=playbook shows the lessons of a file; give playbook=FILE")
        if self.hint is not Hint.NONE and self.loss.kl:
            raise ValueError(f"loss.kl={self.loss.kl} needs rows that stay with the engine; set loss.kl=0 or hint=none")

    @property
    def lessons(self) -> Playbook:
        """Those that the teacher reads; for what it raises see :meth:`.Playbook.filled`."""
        if self.hint is not Hint.PLAYBOOK or self.playbook is None:
            return Playbook()
        return Playbook.filled(self.playbook, "algorithm.playbook")

    def unused(self, *, off_policy: bool, environments: int) -> Mapping[str, str]:
        why = "algorithm=distill learns from no reward"
        reasons = {
            **super().unused(off_policy=off_policy, environments=environments),
            **within("shaping", {each.name: why for each in fields(self.shaping)}),
        }
        if self.hint is not Hint.PLAYBOOK:
            reasons["playbook"] = f"algorithm.hint={self.hint} reads none"
        if self.hint is not Hint.NONE:
            why = f"algorithm.hint={self.hint} learns from the present weights' own tokens"
            reasons |= within("correction", {each.name: why for each in fields(self.correction)})
        return reasons


class Distill(PolicyGradient[DistillConfig]):
    """Roll out, score with the teacher, learn."""

    Config = DistillConfig

    def __init__(self, config: DistillConfig) -> None:
        super().__init__(config)
        self.teaching = ReverseKL(self.loss)
        self.playbook = config.lessons

    @classmethod
    def needs(cls, config: DistillConfig) -> Needs:
        needs, key = super().needs(config), f"algorithm.hint={config.hint}"
        if config.teacher != POLICY:
            teacher = Model(start=config.teacher, key="algorithm.teacher")
            needs = replace(needs, models={**needs.models, TEACHER: teacher})
        if config.hint is Hint.NONE:
            return needs
        needs = replace(needs, whole_steps=key, full_context=key)
        if config.hint is Hint.PLAN:
            return replace(needs, plans=key)
        environments = {"algorithm.playbook": {lesson.env for lesson in config.lessons.lessons}}
        return replace(needs, by_environment=key, environments=environments)

    def unit(self, run: Run, number: int) -> Metrics:
        if self.config.hint is Hint.NONE:
            return super().unit(run, number)
        learnt = self.rolled_out(run, run.requests(number))
        rows = self.rows(learnt)
        taught = self.taught(run, rows)
        metrics = self.learn_whole(run, taught, learnt, number, self.teaching, "distill")
        return {**metrics, "distill/taught": len(taught) / max(1, len(rows))}

    def learn(self, run: Run, rollouts: Sequence[Rollout], number: int) -> None:
        config, lr = self.config, self.rate(number)
        rows = run.score(self.rows(rollouts), by=TEACHER, name=TEACHER)
        run.learn(rows, self.teaching, lr=lr, mini_batch=config.mini_batch_tasks, epochs=config.epochs)

    def streams(self, rollouts: Sequence[Rollout]) -> list[dict[str, Stream]]:
        return [{} for _ in rollouts]

    def metrics_of(self, learnt: Sequence[Rollout], response_tokens: int) -> Metrics:
        return {}

    def taught(self, run: Run, rows: Sequence[Row]) -> list[Row]:
        """The rows that have a hint, with the log-probabilities of a teacher that reads it."""
        text = cache(partial(hint.text, run, self.config.hint, self.playbook))  # one for all episodes of a task
        pairs = [(row, other) for row in rows if (other := hint.hinted(run, row, text)) is not None]
        by = POLICY if self.config.teacher == POLICY else TEACHER
        scored = run.score([other for _, other in pairs], by=by, name=TEACHER, read=True)
        taught = []
        for (row, _), other in zip(pairs, scored, strict=True):
            stream = behind(other.of_tokens(TEACHER), other.tokens.prompt, row.tokens.prompt)
            taught.append(replace(row, streams={**row.streams, TEACHER: stream}))
        return taught
