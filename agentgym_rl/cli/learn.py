"""``agentgym-rl learn``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agentgym_rl.cli import common
from agentgym_rl.cli.policy import fetched, spent
from agentgym_rl.envs.progress import progress_bar

if TYPE_CHECKING:
    from agentgym_rl.api.practice import Practice
    from agentgym_rl.eval.evaluation.result import Result
    from agentgym_rl.eval.practice.learn import Learned


def command(
    panel: Annotated[str, typer.Argument(metavar="PANEL", help="Tasks to learn from, as panel= of eval.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="policy=, writer= and any of the keys above.")
    ] = None,
    host: common.Host = None,
    address: common.Address = None,
    token_env: common.Token = None,
    as_json: common.Json = False,
) -> None:
    """Let a model learn in words: a playbook for its prompt; ``learn.txt`` is its help."""
    from agentgym_rl.api.practice import LearnRequest, prepare
    from agentgym_rl.api.request import read

    request = read([f"panel={panel}", *(arguments or [])], LearnRequest)
    practice = prepare(request, common.place(host, address, token_env), fetched)
    with common.resumable(practice.out), common.phases("learning") as progress:
        practice.learner.progress = progress
        learned = practice.run()
    validated = {} if request.validation is None else _validated(practice)
    if as_json:
        results = {name: result.to_dict() for name, result in validated.items()}
        common.print_json({"out": practice.out, "digest": learned.playbook.digest, **learned.to_dict(), **results})
    else:
        _tell(practice, learned, validated)
    for result in validated.values():
        result.check(request.min_counted)


def _validated(practice: Practice) -> dict[str, Result]:
    results = {}
    for name, prepared in zip(("without", "with"), practice.validations(fetched), strict=True):
        with common.resumable(prepared.out), progress_bar(f"validation {name} the playbook") as progress:
            results[name] = prepared.run(progress)
    return results


def _tell(practice: Practice, learned: Learned, results: dict[str, Result]) -> None:
    from agentgym_rl.eval.evaluation.comparison import compare
    from agentgym_rl.eval.evaluation.tables import comparison_tables
    from agentgym_rl.eval.practice.learn import FLAT_STEPS, NAME

    screen = common.console(160)
    solved = ", ".join(f"{share:.1%}" for share in learned.solved)
    common.say(screen, f"solved by step: {solved}")
    if learned.flat == FLAT_STEPS:
        common.say(screen, f"ended: no group of the last {FLAT_STEPS} steps had both outcomes; give other tasks")
    operations = {name: number for name, number in learned.counts.items() if number and name not in ("groups", "mixed")}
    mixed, groups = learned.counts["mixed"], learned.counts["groups"]
    common.say(screen, f"{mixed} of {groups} groups asked about; {common.counts(operations) or 'no operation'}")
    for line in spent(practice.models):
        common.say(screen, line)
    book = learned.playbook
    common.say(screen, f"written: {practice.out / NAME} ({len(book.lessons)} lessons, digest {book.digest})")
    if results:
        for table in comparison_tables(compare(results["without"], results["with"]), "without", "with the playbook"):
            common.print_table(screen, table)
