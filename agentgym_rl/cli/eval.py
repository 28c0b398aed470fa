"""``agentgym-rl eval``."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from agentgym_rl.cli.common import AddressOption, HostOption, TokenOption, place, world_options
from agentgym_rl.cli.request import Request, read, split

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym_rl.cli.policy import Policy
    from agentgym_rl.eval.evaluation.result import Result
    from agentgym_rl.eval.evaluation.rules import Rules


def command(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="panel=, policy= and any of the keys above.")
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option("--compare", metavar="A B", help="Compare two results on the same panel: their folders."),
    ] = None,
    host: HostOption = None,
    address: AddressOption = None,
    token_env: TokenOption = None,
) -> None:
    """Play frozen panels of tasks and say what came of it, with intervals.

    \b
    agentgym-rl eval panel=maze:test policy=runs/demo samples=4 temperature=1
    agentgym-rl eval panel=textcraft_test.json policy=openai:MODEL@http://HOST/v1
    agentgym-rl eval --compare evals/A evals/B

    \b
    panel=         <world>:<split>[:<n>[:<seed>]]; or a file of item ids,
                   AgentEval's as they are; or a run for its own panels,
                   runs/NAME[:LABEL]. Several are separated by commas
    policy=        oracle, random, a Hugging Face folder or hub id,
                   openai:<model>@<url> (its key: OPENAI_API_KEY), or a run:
                   runs/NAME[:STAGE], runs/NAME/checkpoints/global_step_N
    samples=1      episodes of each task; of several, pass@k and pass^k, too
    temperature=0  of a model's sampling; 0 is greedy
    seed=0         of sampling and of intervals
    out=           folder of the result; left out, evals/<panel>/<policy>-...
                   The same command goes on where it was stopped, and plays
                   again what failed outside the agent

    \b
    max_turns= style= action_format= turn_tokens= invalid_limit=
    prompt_tokens= response_tokens= retries=
                   rules of an episode. Left out, those the model was trained
                   by (a run's, or an exported folder's); else those of the
                   run whose panel it is; else the worlds' own
    options.WORLD.KEY=
                   an option of a world
    concurrency=   episodes at once; left out, 16 of a model, else 1
    backend=auto   of a local model: vllm, or transformers without vLLM
    price=IN,OUT   of a million prompt and completion tokens of an API
    max_cost=      stop when an API has cost this much
    per_minute=    most requests a minute; an API's own limits are waited out
    """
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 160)
    if compare is not None:
        if arguments:
            raise ValueError(f"--compare takes two results and no keys, got {arguments[0]!r}")
        _compare(*compare, console)
        return
    options, keys = split(arguments or [])
    _evaluate(read(keys), options, {"kind": host, "address": address, "token_env": token_env}, console)


def _evaluate(request: Request, options: list[str], where: dict[str, str | None], console: Console) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from agentgym_rl.eval.evaluation import suite as suites
    from agentgym_rl.eval.evaluation.evaluate import evaluate
    from agentgym_rl.eval.evaluation.plan import Plan
    from agentgym_rl.eval.evaluation.tables import tables

    folder = _folder(request)
    rules = _rules(request, options, folder)
    suite = suites.read(request.panel, rules)
    console.print(f"panel {suite.digest}: {_sizes(suite)}", highlight=False, soft_wrap=True)
    policy = _policy(request, folder, rules)
    plan = Plan(
        suite=suite, policy=policy.name, rules=rules, samples=request.samples, temperature=request.temperature,
        seed=request.seed, backend=policy.backend,
    )  # fmt: skip
    out = request.out or Path("evals") / suite.digest / _slug(request)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True, console=_stderr()) as bar:
        running = bar.add_task("evaluating")

        async def play() -> Result:
            try:
                return await evaluate(
                    plan, policy.make_player, out,
                    concurrency=(16 if policy.usage else 1) if request.concurrency is None else request.concurrency,
                    place=place(**where), usage=policy.usage, price=request.price,
                    progress=lambda done, total: bar.update(running, completed=done, total=total),
                )  # fmt: skip
            finally:
                await policy.close()

        try:
            result = asyncio.run(play())
        except KeyboardInterrupt:
            typer.echo(f"Interrupted; {out} keeps what was played, and the same command goes on.", err=True)
            raise typer.Exit(130) from None
    for table in tables(result):
        console.print(table)
    for line in _afterword(result, out):
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _folder(request: Request) -> str | None:
    """Folder or hub id of a local model; None for another policy."""
    if request.policy in ("oracle", "random") or request.policy.startswith("openai:"):
        return None
    from agentgym_rl.cli.policy import folder_of

    return folder_of(request.policy)


def _rules(request: Request, options: list[str], folder: str | None) -> Rules:
    from dataclasses import replace

    from agentgym_rl.envs.actions import ActionFormat
    from agentgym_rl.envs.core import Style
    from agentgym_rl.eval.evaluation.rules import Rules, read_config
    from agentgym_rl.eval.evaluation.suite import run_of

    run = run_of(request.panel)
    found = None if folder is None else Rules.beside(Path(folder))
    if found is None:
        found = Rules() if run is None else Rules.of_run(read_config(run))
    if run is not None and folder is None:  # tokens are a local model's own matter
        found = replace(found, prompt_tokens=None, response_tokens=None)
    _one_of("action_format", request.action_format, [one.value for one in ActionFormat])
    _one_of("style", request.style, get_args(Style))
    own = found.but(
        style=request.style, max_turns=request.max_turns, turn_tokens=request.turn_tokens,
        invalid_limit=request.invalid_limit, retries=request.retries,
        action_format=None if request.action_format is None else ActionFormat(request.action_format),
    )  # fmt: skip
    given: dict[str, dict[str, Any]] = {env: dict(values) for env, values in own.options.items()}
    for text in options:
        env, dot, pair = text.removeprefix("options.").partition(".")
        if not dot:
            raise ValueError(f"{text!r} is not options.WORLD.KEY=VALUE")
        given.setdefault(env, {}).update(world_options(env, [pair]))
    limits = {
        key: value for key in ("prompt_tokens", "response_tokens") if (value := getattr(request, key)) is not None
    }
    return replace(own, options=given, **limits)


def _one_of(key: str, value: str | None, known: Sequence[str]) -> None:
    if value is not None and value not in known:
        raise ValueError(f"{key}={value!r} is unknown; choose {', '.join(known)}")


def _policy(request: Request, folder: str | None, rules: Rules) -> Policy:
    from agentgym_rl.cli.policy import Policy, local_model, scripted

    if request.policy in ("oracle", "random"):
        return scripted(request.policy, request.seed)
    if request.samples > 1 and request.temperature == 0:
        raise ValueError(f"samples={request.samples} of a greedy model are the same episode; give temperature=1, say")
    if folder is not None:
        return local_model(
            request.policy, folder, rules, temperature=request.temperature, seed=request.seed, backend=request.backend,
            sequences=max(16, request.concurrency or 0),
        )  # fmt: skip
    from agentgym_rl.eval.evaluation.metered import Metered
    from agentgym_rl.rollout.policies.api import api

    model = Metered(
        request.policy, temperature=request.temperature, turn_tokens=rules.settings.turn_tokens, price=request.price,
        max_cost=request.max_cost, per_minute=request.per_minute,
    )  # fmt: skip
    return Policy(request.policy, lambda settings: api(model, settings, request.seed), model.usage)


def _compare(first: str, second: str, console: Console) -> None:
    from agentgym_rl.eval.evaluation import result
    from agentgym_rl.eval.evaluation.comparison import compare
    from agentgym_rl.eval.evaluation.tables import comparison_tables

    found = compare(result.read(first), result.read(second))
    for table in comparison_tables(found, Path(first).name, Path(second).name):
        console.print(table)
    lines = [f"the evaluations differ in {one}" for one in found.departures]
    if found.left_out:
        lines.append(f"left out, as one of the two failed outside the agent: {' '.join(found.left_out)}")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _afterword(result: Result, out: Path) -> list[str]:
    lines = []
    if result.failures:
        first = result.failures[0]
        lines.append(
            f"{len(result.failures)} episodes failed outside the agent and do not count, such as {first['item_id']}: "
            f"{first['error']}; the same command plays them again"
        )
    cost = result.cost
    if "calls" in cost:
        spent = f"{cost['calls']} calls, {cost['prompt_tokens']:,} + {cost['completion_tokens']:,} tokens"
        lines.append(spent + (f", cost {cost['price']:.2f}" if "price" in cost else "") + f", {cost['seconds']:.0f} s")
    return [*lines, f"written: {out}"]


def _sizes(suite: Any) -> str:
    return ", ".join(f"{panel.env} {panel.name} {panel.digest} (n={len(panel.item_ids)})" for panel in suite.panels)


def _slug(request: Request) -> str:
    """Names the folder of a result."""
    name = re.sub(r"[^A-Za-z0-9.]+", "_", request.policy.removeprefix("openai:")).strip("_")
    return f"{name}-n{request.samples}-t{request.temperature:g}-seed{request.seed}"


def _stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True)
