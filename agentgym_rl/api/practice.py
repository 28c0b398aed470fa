"""Learning in words in one call, and what it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

from agentgym_rl.algorithms.checks import above, at_least
from agentgym_rl.api import evaluation
from agentgym_rl.api.evaluation import Prepared
from agentgym_rl.api.policies import LOCAL, PAID
from agentgym_rl.api.request import EvalRequest, Request, Writing
from agentgym_rl.api.writing import check_models, closing_all, distinct, open_models
from agentgym_rl.data.files import alone
from agentgym_rl.engine.run.local_model import folder_of
from agentgym_rl.envs.core import Task
from agentgym_rl.envs.hosts import EnvHost, LocalHost
from agentgym_rl.eval.evaluation import suite as suites
from agentgym_rl.eval.evaluation.rules import Rules
from agentgym_rl.eval.evaluation.suite import Suite
from agentgym_rl.eval.practice.giveaways import Giveaways
from agentgym_rl.eval.practice.learn import NAME, Course, Learned, Learner
from agentgym_rl.rollout import pretrained
from agentgym_rl.rollout.playbook import Form, Playbook
from agentgym_rl.rollout.policies import Policy
from agentgym_rl.rollout.policies.api import ChatModel


@dataclass(kw_only=True)
class LearnRequest(Writing, Request):
    """What to learn from. ``playbook`` is the one to go on from; other keys are those of an evaluation."""

    samples: int = 5
    temperature: float = 0.7
    validation: str | None = None
    """Panel of the table with and without the playbook."""
    epochs: int = 3
    tasks: int = 50
    experiences: int = 2
    most: int = 40
    tokens: int = 1500
    form: Form | None = None
    """By default that of ``playbook``, or else experiences."""
    rewards: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "epochs", "tasks", "experiences", "most", "tokens")
        at_least(self, 2, "samples")
        above(self, 0, "temperature")


@dataclass(frozen=True)
class Practice:
    """A course that can start."""

    learner: Learner
    request: LearnRequest
    held_out: Suite | None
    """The validation panel."""

    @property
    def out(self) -> Path:
        return self.learner.folder

    @property
    def models(self) -> list[Policy]:
        """See :func:`agentgym_rl.api.writing.distinct`."""
        return distinct(self.learner.policy, self.learner.writer)

    def run(self) -> Learned:
        """Learn, or what is missing of it; see :meth:`agentgym_rl.eval.practice.learn.Learner.run`.

        Raises:
            ValueError: another process is at it.
        """
        with alone(self.out):
            return asyncio.run(closing_all(self.models, self.learner.run()))

    def validations(self, fetch: Callable[[str], str] = pretrained.local) -> Iterator[Prepared]:
        """The evaluations on the validation panel, without and with the playbook; ``max_cost`` limits all together."""
        learn_request, paid = self.request, [model for model in self.models if isinstance(model, ChatModel)]
        digest = Playbook.read(self.out / NAME).digest
        unread = LOCAL if learn_request.policy.startswith("openai:") else PAID  # they are the writer's alone
        names = [key.name for key in fields(Request) if key.name not in unread]
        same = {name: getattr(learn_request, name) for name in names}
        assert self.held_out is not None, "validation= is given"
        same["options"] = {env: same["options"][env] for env in same["options"] if env in self.held_out.envs}
        for file, folder in ((None, "without"), (self.out / NAME, f"with-{digest}")):
            changes = {"panel": learn_request.validation, "samples": 1, "temperature": 0.0, "playbook": file}
            request = EvalRequest(**{**same, **changes, "out": self.out / "validation" / folder})
            prepared = evaluation.prepare(request, self.learner.host, fetch=fetch)
            if isinstance(prepared.policy, ChatModel):
                prepared.policy.beside = tuple(paid)
                paid.append(prepared.policy)
            yield prepared


def prepare(
    request: LearnRequest, host: EnvHost | None = None, fetch: Callable[[str], str] = pretrained.local
) -> Practice:
    """Read the panels and open policy and writer; no episode runs.

    Raises:
        ValueError, FileNotFoundError, EnvError: as :func:`agentgym_rl.api.evaluation.prepare`, or policy or writer is
            none that reads or writes, or the validation panel has a task of the panel, or none of its environments.
    """
    check_models(request)
    host = host or LocalHost()
    rules = evaluation.rules_for(request, folder_of(request.policy, fetch))
    suite = suites.read(request.panel, rules, host)
    held_out = None if request.validation is None else suites.read(request.validation, rules, host)
    if held_out and (both := {*map(str, suite.tasks)} & {*map(str, held_out.tasks)}):
        raise ValueError(f"validation={request.validation} has {min(both)} of panel={request.panel}; give other tasks")
    if others := [env for env in request.options if env not in {*suite.envs, *(held_out.envs if held_out else ())}]:
        raise ValueError(f"options.{others[0]} has no effect: no panel has a task of {others[0]}")
    if held_out and not {*suite.envs} & {*held_out.envs}:
        raise ValueError(
            f"validation={request.validation} has no task of {', '.join(suite.envs)}, which the lessons are of"
        )
    if held_out:
        evaluation.exemplars_of(request, held_out)  # whatever is wrong is told before the first episode
    start = Playbook() if request.playbook is None else Playbook.read(request.playbook)
    start = replace(start, form=request.form or start.form)
    policy, writer = open_models(request, rules)
    policy.exemplars = evaluation.exemplars_of(request, suite)
    course = Course(
        suite=suite, rules=rules, policy=policy.name, writer=writer.name,
        weights=(policy.weights, writer.weights), start=start, epochs=request.epochs, tasks=request.tasks,
        samples=request.samples, temperature=request.temperature, seed=request.seed,
        experiences=request.experiences, most=request.most, tokens=request.tokens, rewards=request.rewards,
        min_counted=request.min_counted, exemplars=policy.exemplars,
    )  # fmt: skip
    learner = Learner(
        course=course, policy=policy, writer=writer, host=host, giveaways=_giveaways([suite, held_out], rules, host),
        folder=request.out or Path("playbooks") / suite.digest / evaluation.slug(request, request.policy),
        concurrency=16 if request.concurrency is None else request.concurrency,
    )  # fmt: skip
    return Practice(learner, request, held_out)


def _giveaways(suites: list[Suite | None], rules: Rules, host: EnvHost) -> Giveaways:
    tasks: list[Task] = [task for suite in suites if suite for task in suite.tasks]
    sessions = {env: host.facts(env, rules.session_options(env)) for env in {task.env: None for task in tasks}}
    return Giveaways.of((sessions[task.env], task) for task in tasks)
