"""An evaluation in one call."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from agentgym_rl.api import request as requests
from agentgym_rl.api.frames import episode_frame, frame
from agentgym_rl.api.policies import LOCAL, check_samples, closing, function, open_policy, rules_of
from agentgym_rl.api.request import EvalRequest, Request, Rollouts
from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Episode
from agentgym_rl.data.episode_schema import Summary
from agentgym_rl.data.episode_store import SUMMARY
from agentgym_rl.engine.run.local_model import folder_of
from agentgym_rl.envs.extras import needs
from agentgym_rl.envs.hosts import EnvHost, LocalHost
from agentgym_rl.envs.registry import check_options
from agentgym_rl.envs.sync import outside
from agentgym_rl.eval.evaluation import evaluate as running
from agentgym_rl.eval.evaluation import result as results
from agentgym_rl.eval.evaluation import suite as suites
from agentgym_rl.eval.evaluation.plan import Plan
from agentgym_rl.eval.evaluation.result import Result
from agentgym_rl.eval.evaluation.rules import Rules
from agentgym_rl.eval.evaluation.scores import Measure, Score, macro
from agentgym_rl.eval.evaluation.suite import Suite
from agentgym_rl.rollout import pretrained
from agentgym_rl.rollout.conversation import Respond
from agentgym_rl.rollout.exemplars import Exemplars
from agentgym_rl.rollout.playbook import Playbook
from agentgym_rl.rollout.policies import Policy
from agentgym_rl.rollout.runner import Progress
from agentgym_rl.rollout.settings import Context, Thinking

if TYPE_CHECKING:
    from pandas import DataFrame

FIGURES = ("success", "reward", "turns", "error_rate")


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What an evaluation found; a notebook shows its table."""

    result: Result
    records: tuple[Episode, ...]
    """Every episode with its conversation, in the order of tasks and samples."""
    folder: Path | None
    """Where it is kept; None where it is not."""

    @classmethod
    def read(cls, folder: str | Path) -> Evaluation:
        """A finished evaluation from its folder.

        Raises:
            FileNotFoundError, ValueError: it is none.
        """
        place = Path(folder)
        return cls(results.read(place), tuple(episode_store.read(place / running.EPISODES)), place)

    @property
    def success(self) -> Measure | None:
        """Share of the tasks solved (``value``) with its 95% interval (``ci95``); of several environments the mean
        over them. None where no episode of an environment counts."""
        return self._whole.success

    @property
    def reward(self) -> Measure | None:
        """Mean reward, as :attr:`success`."""
        return self._whole.reward

    @property
    def table(self) -> DataFrame:
        """A row for each environment and each of its difficulties: tasks, episodes that count, and the means of
        success, reward, turns and error rate with the bounds of their 95% intervals (``<name>_low``, ``_high``).

        Raises:
            MissingExtra: pandas is not installed.
        """
        return frame([{"env": env, "difficulty": level, **_row(score)} for env, level, score in self._scores()])

    @property
    def episodes(self) -> DataFrame:
        """A row for each episode; the columns are those of :class:`agentgym_rl.data.episode_schema.Summary`.

        Success and reward are missing where the ending does not count.

        Raises:
            MissingExtra: pandas is not installed.
        """
        rows = [{**asdict(Summary.of(record)), "sample": record.tags["sample"]} for record in self.records]
        return episode_frame(rows, [*SUMMARY, "sample"])

    @property
    def _whole(self) -> Score:
        scores = list(self.result.envs().values())
        return scores[0] if len(scores) == 1 else macro(scores)

    def _scores(self) -> Iterator[tuple[str, str, Score]]:
        """Environment, difficulty (first ``all``) and figures."""
        for env, levels in self.result.difficulties().items():
            yield env, "all", self.result.envs()[env]
            yield from ((env, level, score) for level, score in levels.items())

    def __repr__(self) -> str:
        return f"<Evaluation: {self}>"

    def _repr_html_(self) -> str:
        from agentgym_rl.eval.evaluation.tables import measured

        head = ("environment", "difficulty", "tasks", "episodes", "success", "reward")
        body = [
            (env, level, score.tasks, score.episodes, measured(score.success, 3), measured(score.reward, 3))
            for env, level, score in self._scores()
        ]
        rows = [f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in row)}</tr>"
                for tag, row in (("th", head), *(("td", row) for row in body))]  # fmt: skip
        return f"<table><caption>{escape(str(self))}</caption>{''.join(rows)}</table>"

    def __str__(self) -> str:
        policy, scores = self.result.plan["policy"], self.result.envs()
        if self.success is None:
            without = [env for env, score in scores.items() if score.success is None]
            return f"{policy}: no episode of {', '.join(without)} counts"
        low, high = self.success.ci95
        tasks = sum(score.success.n for score in scores.values() if score.success)
        mean = f" (mean of {len(scores)} environments)" if len(scores) > 1 else ""
        return (
            f"{policy} on panel {self.result.digest}: success {self.success.value:.1%}{mean}, "
            f"95% interval {low:.1%} to {high:.1%}, {tasks} tasks"
        )


def evaluate(
    policy: str | Path | Policy | Respond,
    panel: str,
    *,
    host: EnvHost | None = None,
    progress: Progress | None = None,
    **keys: Any,
) -> Evaluation:
    """Run a policy on panels of tasks, as ``agentgym-rl eval`` does.

        evaluate("oracle", "textcraft:test:20").success
        evaluate("runs/demo", "textcraft:test", samples=4, temperature=1).table
        evaluate(lambda messages: "Action: inventory", "textcraft:test:20").episodes

    Args:
        policy: a name, as ``policy=`` of ``agentgym-rl eval``; a :class:`Policy`; or a function from the messages of
            the conversation (``role``, ``content``) to the response.
        panel: as ``panel=``.
        host: where the environments run; None is this process.
        progress: called with the number of episodes that are done, and of all.
        keys: the others of ``agentgym-rl eval``: ``samples``, ``temperature``, ``max_turns``, ``out``, ... The result
            of a name is kept in ``out``, by default ``evals/<digest of the panel>/<policy>-...``, and the same call
            goes on where it was stopped; of a policy or a function it is kept only where ``out`` is given.

    Raises:
        ValueError: an argument is unknown or wrong.
        FileNotFoundError: there is no such policy or panel.
        EnvUnavailable: too few episodes count (``min_counted``).
        EnvError: an environment cannot run.
    """
    opened = None if isinstance(policy, (str, Path)) else policy if isinstance(policy, Policy) else function(policy)
    request: EvalRequest = requests.of({"panel": panel, "policy": policy if opened is None else opened.name, **keys})
    if opened is not None and "temperature" in keys and opened.temperature not in (None, request.temperature):
        raise ValueError(
            f"temperature={request.temperature:g} has no effect: {opened.name} samples at {opened.temperature:g}"
        )

    def work() -> Evaluation:
        if opened is None or request.out is not None:
            prepared = prepare(request, host, opened)
            prepared.run(progress)
            return Evaluation.read(prepared.out)
        with TemporaryDirectory() as folder:
            prepare(replace(request, out=Path(folder)), host, opened).run(progress)
            return replace(Evaluation.read(folder), folder=None)

    own = None if opened is None else (opened.prompts, opened.exemplars)
    try:
        evaluation: Evaluation = outside(work)
    finally:
        if opened is not None and own is not None:
            opened.prompts, opened.exemplars = own
    evaluation.result.check(request.min_counted)
    return evaluation


@dataclass(frozen=True)
class Prepared:
    """An evaluation that can start."""

    plan: Plan
    policy: Policy
    out: Path
    """Folder of the result."""
    request: EvalRequest
    host: EnvHost

    def run(self, progress: Progress | None = None) -> Result:
        """Run it, or what is missing of it; see :func:`agentgym_rl.eval.evaluation.evaluate.evaluate`."""
        request, default = self.request, 16 if self.policy.usage else 1
        concurrency = default if request.concurrency is None else request.concurrency
        work = running.evaluate(
            self.plan, self.policy, self.out, concurrency=concurrency,
            host=self.host, price=(request.price[0], request.price[1]), progress=progress,
        )  # fmt: skip
        return asyncio.run(closing(self.policy, work))


def prepare(
    request: EvalRequest,
    host: EnvHost | None = None,
    policy: Policy | None = None,
    fetch: Callable[[str], str] = pretrained.local,
) -> Prepared:
    """Read the panels and open the policy; no episode runs.

    Args:
        policy: goes before the one that the request names.
        fetch: gives the folder of a model that has a name.

    Raises:
        ValueError, FileNotFoundError, EnvError: see :func:`evaluate`.
    """
    host = host or LocalHost()
    rules, suite, playbook = _read(request, host, policy, fetch)
    opened = _with_harness(request, policy or _policy(request, rules))
    opened.prompts = rules.prompts
    opened.exemplars = exemplars_of(request, suite) or (None if policy is None else policy.exemplars)
    temperature = request.temperature if policy is None or policy.temperature is None else policy.temperature
    plan = Plan(
        suite=suite, policy=opened.name, weights=opened.weights, rules=rules, samples=request.samples,
        temperature=temperature, seed=request.seed, backend=opened.backend,
        exemplars=opened.exemplars,
    )  # fmt: skip
    marked = "" if request.playbook is None else f"-playbook-{playbook.digest}"
    if opened.exemplars is not None:
        marked += f"-exemplars{opened.exemplars.nearest}-{opened.exemplars.digest}"
    out = request.out or Path("evals") / suite.digest / (slug(request, request.policy, request.harness) + marked)
    return Prepared(plan, opened, out, request, host)


def without_playbook(
    request: EvalRequest, host: EnvHost, fetch: Callable[[str], str] = pretrained.local
) -> EvalRequest:
    """The same evaluation of a model that reads no playbook, which comes before the one with it.

    Raises:
        ValueError, FileNotFoundError, EnvError: the one with it cannot start.
    """
    _read(request, host, None, fetch)
    return replace(request, playbook=None, out=request.out and request.out / "without")


def _read(
    request: EvalRequest, host: EnvHost, policy: Policy | None, fetch: Callable[[str], str]
) -> tuple[Rules, Suite, Playbook]:
    """What does not need the policy to be open; see :func:`prepare`."""
    folder = None if policy is not None else folder_of(request.policy, fetch)
    _check_keys(request, folder, policy)
    rules = rules_for(request, folder, policy)
    suite = suites.read(request.panel, rules, host)
    if others := [env for env in request.options if env not in {panel.env for panel in suite.panels}]:
        raise ValueError(f"options.{others[0]} has no effect: panel={request.panel} has no task of {others[0]}")
    playbook = Playbook() if request.playbook is None else Playbook.read(request.playbook)
    rules = replace(rules, prompts=playbook.prompts(rules.prompts if policy is None else policy.prompts))
    _check_playbook(request, playbook, suite)
    return rules, suite, playbook


def _check_keys(request: EvalRequest, folder: str | None, policy: Policy | None) -> None:
    """Raises ValueError: a key is given that the policy does not read."""
    unread = () if folder is not None else LOCAL if policy is None else (*LOCAL, "max_cost", "per_minute", "without")
    if given := request.given(*unread):
        raise ValueError(f"{given[0]}= has no effect on policy={request.policy}; leave it out")


def exemplars_of(request: Request, suite: Suite) -> Exemplars | None:
    """See :meth:`Exemplars.read`."""
    return None if request.exemplars is None else Exemplars.read(request.exemplars, request.nearest, suite.envs)


def _check_playbook(request: Request, playbook: Playbook, suite: Suite) -> None:
    """Raises ValueError: what a model would read has no effect."""
    for key in ("playbook", "exemplars"):
        if getattr(request, key) is not None and request.policy in ("oracle", "random"):
            raise ValueError(f"policy={request.policy} reads nothing; leave {key}= out")
    envs = sorted({lesson.env for lesson in playbook.lessons})
    if envs and not {*envs} & {*suite.envs}:
        raise ValueError(f"{request.playbook} is of {', '.join(envs)}, and panel={request.panel} of others")


def rules_for(request: Request, folder: str | None, policy: Policy | None = None) -> Rules:
    """The rules of a local model's weights, or else of a run's panels, with the settings that a request gives. Of an
    API, a function and a harness nobody hides earlier turns, nor thinking but of a harness with a local model.

    Args:
        folder: of the local model that the request names.
        policy: goes before the one that the request names.

    Raises:
        ValueError: a setting is wrong, or the run's configuration cannot be read.
    """
    runs = suites.runs_of(request.panel)
    rules = rules_of(folder)
    if rules is None:
        rules = Rules.of_runs(runs) if runs else Rules()
    if runs and folder is None:  # limits of tokens are a local model's own
        rules = replace(rules, prompt_tokens=None, response_tokens=None)
    local = folder is not None or (policy is not None and policy.backend is not None)
    if not local:
        rules = rules.but(thinking=Thinking.keep)
    harness = isinstance(request, EvalRequest) and request.harness is not None
    own_context = policy is not None and policy.own_context
    if (harness or own_context or not local) and rules.settings.context is not Context.recent:
        rules = rules.but(context=Context.full)
    return changed(rules, request)


def changed(rules: Rules, request: Rollouts) -> Rules:
    """Rules with the settings that a request gives."""
    updated = rules.but(
        style=request.style, max_turns=request.max_turns, max_new_tokens=request.max_new_tokens,
        invalid_limit=request.invalid_limit, retries=request.retries, action_format=request.action_format,
    )  # fmt: skip
    options: dict[str, dict[str, Any]] = {env: dict(values) for env, values in updated.options.items()}
    for env, values in request.options.items():
        check_options(env, values)
        if "style" in values:
            raise ValueError(f"options.{env}.style has no effect; write style={values['style']}")
        options.setdefault(env, {}).update(values)
    limits = {
        key: value for key in ("prompt_tokens", "response_tokens") if (value := getattr(request, key)) is not None
    }
    return replace(updated, options=options, **limits)


def _policy(request: Request, rules: Rules) -> Policy:
    check_samples(request.policy, request.samples, request.temperature)
    return open_policy(
        request.policy, rules, backend=request.backend, sequences=max(16, request.concurrency or 0),
        temperature=request.temperature, seed=request.seed, price=(request.price[0], request.price[1]),
        max_cost=request.max_cost, per_minute=request.per_minute, without=request.without,
    )  # fmt: skip


def _with_harness(request: EvalRequest, policy: Policy) -> Policy:
    """The policy, or the harness whose model it is."""
    if request.harness is None:
        return policy
    with needs("harness=", "serve"):
        from agentgym_rl.rollout.harness.policy import HarnessPolicy
    from agentgym_rl.rollout.harness.settings import Harness

    return HarnessPolicy(Harness.named(request.harness), policy, request.seed)


def slug(request: Request, *names: str | None) -> str:
    """Names the folder of a result of policy and harness."""
    named = " ".join(filter(None, names)).removeprefix("openai:")
    name = re.sub(r"[^A-Za-z0-9.]+", "_", named).strip("_")
    return f"{name}-n{request.samples}-t{request.temperature:g}-seed{request.seed}"


def _row(score: Score) -> dict[str, Any]:
    row: dict[str, Any] = {"tasks": score.tasks, "episodes": score.episodes}
    for name in FIGURES:
        measure: Measure | None = getattr(score, name)
        bounds: Sequence[float | None] = (None, None, None) if measure is None else (measure.value, *measure.ci95)
        row |= dict(zip((name, f"{name}_low", f"{name}_high"), bounds, strict=True))
    return row
