"""``agentgym-rl eval``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym_rl.cli import common
from agentgym_rl.envs.progress import progress_bar

if TYPE_CHECKING:
    from agentgym_rl.api.request import EvalRequest
    from agentgym_rl.envs.hosts import EnvHost
    from agentgym_rl.eval.evaluation.result import Result
    from agentgym_rl.eval.evaluation.suite import Suite


def command(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="panel=, policy= and any of the keys above.")
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Compare two results on the same panel: their folders."),
    ] = None,
    host: common.Host = None,
    address: common.Address = None,
    token_env: common.Token = None,
    as_json: common.Json = False,
) -> None:
    """Run frozen panels of tasks; ``eval.txt`` is its help."""
    if compare is not None:
        if others := [*(arguments or []), *filter(None, (host, address, token_env))]:
            raise ValueError(f"--compare takes two results and no keys, got {others[0]!r}")
        _compare(*compare, as_json)
        return
    from agentgym_rl.api.request import read

    _evaluate(read(arguments or []), common.place(host, address, token_env), as_json)


def _evaluate(request: EvalRequest, host: EnvHost, as_json: bool) -> None:
    from agentgym_rl.api.evaluation import without_playbook
    from agentgym_rl.cli.policy import fetched

    if request.playbook is None:
        requests = {"": request}
    else:
        requests = {"without": without_playbook(request, host, fetched), "with": request}
    found: dict[str, Any] = {}
    try:
        for name, asked in requests.items():
            result, out = _evaluate_one(asked, host, as_json)
            found[name] = result.to_dict() | {"out": out}
            result.check(request.min_counted)
    finally:
        if as_json and found:
            common.print_json(found.get("", found))
    if request.playbook is not None and not as_json:
        _compare(found["without"]["out"], found["with"]["out"], as_json, ("without", "with the playbook"))


def _evaluate_one(request: EvalRequest, host: EnvHost, as_json: bool) -> tuple[Result, Path]:
    """Evaluate, and show what was found; returns the result and its folder."""
    from agentgym_rl.api.evaluation import prepare
    from agentgym_rl.cli.policy import fetched
    from agentgym_rl.eval.evaluation.tables import tables

    prepared = prepare(request, host, fetch=fetched)
    suite = prepared.plan.suite
    screen = common.console(160)
    if not as_json:
        screen.print(f"panel {suite.digest}: {_sizes(suite)}", highlight=False, soft_wrap=True)
    with common.resumable(prepared.out), progress_bar("evaluating") as progress:
        result = prepared.run(progress)
    if not as_json:
        for table in tables(result):
            common.print_table(screen, table)
        for line in _afterword(result, prepared.out):
            common.say(screen, line)
    return result, prepared.out


def _compare(first: str | Path, second: str | Path, as_json: bool, names: tuple[str, str] | None = None) -> None:
    from agentgym_rl.eval.evaluation import result
    from agentgym_rl.eval.evaluation.comparison import compare
    from agentgym_rl.eval.evaluation.tables import comparison_tables

    comparison = compare(result.read(first), result.read(second))
    if as_json:
        common.print_json(comparison)
        return
    screen = common.console(160)
    for table in comparison_tables(comparison, *(names or (Path(first).name, Path(second).name))):
        common.print_table(screen, table)
    for departure in comparison.departures:
        common.say(screen, f"the evaluations differ in {departure}")
    if comparison.left_out:
        common.say(screen, f"left out, as one of the two failed outside the agent: {' '.join(comparison.left_out)}")


def _afterword(result: Result, out: Path) -> list[str]:
    lines = []
    if result.failures:
        first = result.failures[0]
        lines.append(
            f"{len(result.failures)} episodes failed outside the agent and do not count, such as {first['item_id']}: "
            f"{first['error']}; the same command runs them again"
        )
    if result.stopped:
        first, kinds = result.stopped[0], Counter(stopped["ending"] for stopped in result.stopped)
        lines.append(
            f"{len(result.stopped)} episodes were ended by an answer of the model's API and count as they stand "
            f"({common.counts(kinds)}), such as {first['item_id']}: {first['error']}"
        )
    if result.finish_reasons:
        lines.append(f"replies by finish_reason: {common.counts(result.finish_reasons)}; {result.empty_replies} empty")
    cost = result.cost
    if "calls" in cost:
        spent = f"{cost['calls']} calls, {cost['prompt_tokens']:,} + {cost['completion_tokens']:,} tokens"
        lines.append(spent + (f", cost {cost['price']:.4f}" if "price" in cost else "") + f", {cost['seconds']:.0f} s")
    return [*lines, f"written: {out}"]


def _sizes(suite: Suite) -> str:
    return ", ".join(f"{panel.env} {panel.name} {panel.digest} (n={len(panel.item_ids)})" for panel in suite.panels)
