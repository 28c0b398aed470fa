"""``agentgym-rl episodes``."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym_rl.cli.common import console, print_table, run_argument, say
from agentgym_rl.data.episode import Ending
from agentgym_rl.envs import item_ids
from agentgym_rl.envs.progress import progress_bar
from agentgym_rl.eval.search import Hit, Index, check, hits

if TYPE_CHECKING:
    from agentgym_rl.data.episode_schema import Summary
    from agentgym_rl.data.episode_store import EpisodeStore

Place = Annotated[Path, run_argument("RUN|FILE", "Folder of a run, folder of episode files, or such a file.")]


def command(
    place: Place,
    env: Annotated[str | None, typer.Option(help="Only of this environment.")] = None,
    ending: Annotated[str | None, typer.Option(help="Only with this ending, such as turn_limit.")] = None,
    solved: Annotated[bool, typer.Option("--success", help="Only what the agent solved.")] = False,
    failed: Annotated[bool, typer.Option("--failure", help="Only what the agent failed.")] = False,
    task: Annotated[str | None, typer.Option(help="Only of this task (item id).")] = None,
    step: Annotated[
        str | None, typer.Option(metavar="N|N-M", help="Only by weights of this step, or of these.")
    ] = None,
    panel: Annotated[str | None, typer.Option(help="Only of evaluations on this panel.")] = None,
    split: Annotated[str | None, typer.Option(help="Only of this split; training's is train.")] = None,
    decoding: Annotated[str | None, typer.Option(help="Only sampled, or only greedy.")] = None,
    grep: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only those that contain this text; words in this order, any case."),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option("--in", metavar="FIELD", help="With --grep, search observation, response or thought alone."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Show at most so many; 50 in a table.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    whole: Annotated[bool, typer.Option("--whole", help="With --json, print whole episodes.")] = False,
) -> None:
    """List the episodes of a run: of training, of its evaluations, or of a collection.

    With --grep the first use reads all episodes into a search index in the cache; later ones read what is new.
    """
    from agentgym_rl.data.episode_store import EpisodeStore

    if within is not None and grep is None:
        raise ValueError("--in says where to search; add --grep TEXT")
    if grep is not None:
        check(grep, within)
    if whole and not as_json:
        raise ValueError("--whole is of what --json prints; add --json")
    if solved and failed:
        raise ValueError("--success and --failure leave no episode; give one of them")
    success = True if solved else False if failed else None
    if ending is not None and ending not in {*Ending}:
        raise ValueError(f"--ending {ending!r} is unknown; choose {', '.join(Ending)}")
    steps = None if step is None else _steps(step)
    store = EpisodeStore(place)
    _check_present(store, steps, env=env, panel=panel, split=split, decoding=decoding)
    if task is not None:
        task = _task(store, task)
    summaries = store.query(
        env=env, ending=ending, success=success, task=task, step=steps, panel=panel, split=split, decoding=decoding
    )
    if grep is not None:
        summaries = _containing(store, summaries, grep, within)
    if as_json:
        for summary in summaries[:limit]:
            printed = store.open(summary).to_dict() if whole else asdict(summary)
            if grep is not None:
                printed["hits"] = [asdict(hit) for hit in hits(store.open(summary), grep, within)]
            print(json.dumps(printed))
        return

    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("file", "row", "task", "step", "panel", "ending", "solved", "reward", "turns", "tokens"):
        number = name in ("row", "step", "reward", "turns", "tokens")
        table.add_column(name, justify="right" if number else "left", no_wrap=number or name == "task")
    matches: list[tuple[Summary, list[Hit]]] = []
    for summary in summaries[: limit or 50]:
        tokens = summary.prompt_tokens + summary.response_tokens
        panel_of = " ".join(filter(None, (summary.panel or summary.split, summary.decoding)))
        outcome = {True: "yes", False: "no", None: "-"}[summary.success]
        reward = "-" if summary.reward is None else f"{summary.reward:.2f}"
        cells = (
            summary.file,
            summary.row,
            summary.item_id,
            summary.step,
            panel_of,
            summary.ending,
            outcome,
            reward,
            summary.turns,
            tokens or "",
        )
        table.add_row(*(Text(str(cell)) for cell in cells))
        if grep is not None:
            matches.append((summary, hits(store.open(summary), grep, within)))
    screen = console()
    print_table(screen, table)
    for summary, in_episode in matches:
        for hit in in_episode:
            say(screen, f"{summary.file}/{summary.row} turn {hit.turn} {hit.field}: {hit.excerpt}")
    shown = min(len(summaries), limit or 50)
    of = "" if shown == len(summaries) else f" (the first {shown} are shown; --limit shows more)"
    screen.print(f"{len(summaries):,} of {len(store.table):,} episodes{of}", highlight=False)


def _containing(store: EpisodeStore, summaries: list[Summary], text: str, within: str | None) -> list[Summary]:
    """Those of some episodes that contain a text."""
    index = Index(store)
    with progress_bar("search index") as progress:
        index.update(progress)
    places = index.find(text, within)
    return [summary for summary in summaries if (summary.file, summary.row) in places]


def _task(store: EpisodeStore, item_id: str) -> str:
    """A task as the episodes name it; ``item_id`` has any of AgentGym's forms.

    Raises:
        ValueError: no episode has it.
    """
    there = set(store.table["item_id"].to_pylist())
    read = item_ids.read(item_id)
    task = item_id if item_id in there or read is None else "{}_{}".format(*read)
    if task not in there:
        raise ValueError(
            f"--task {item_id!r}: no episode has it; `agentgym-rl episodes {store.place}` lists the tasks there are"
        )
    return task


def _check_present(store: EpisodeStore, steps: tuple[int, int] | None, **options: str | None) -> None:
    """Raises ValueError: no episode has what an option asks for; says what there is."""
    for name, value in options.items():
        known = sorted({value for value in store.table[name].to_pylist() if value is not None})
        if value is not None and value not in known:
            raise ValueError(f"--{name} {value!r}: no episode has it; there are {', '.join(known) or 'none'}")
    if steps is not None:
        there = [step for step in store.table["step"].to_pylist() if step is not None]
        if there and not any(steps[0] <= step <= steps[1] for step in there):
            raise ValueError(f"--step {steps[0]}-{steps[1]}: no episode has it; steps are {min(there)} to {max(there)}")


def _steps(text: str) -> tuple[int, int]:
    """First and last step of ``12`` or ``10-40``. Raises ValueError: it is neither."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if match is None:
        raise ValueError(f"--step {text!r} is neither a step, such as 12, nor a range, such as 10-40")
    first, last = int(match[1]), int(match[2] or match[1])
    if first > last:
        raise ValueError(f"--step {text!r} begins after it ends; write {last}-{first}")
    return first, last
