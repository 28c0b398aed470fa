"""``agentgym-rl compare``."""

from pathlib import Path
from typing import Annotated

import typer

from agentgym_rl.cli.common import console, print_json, run_argument, say
from agentgym_rl.cli.view import Browser, Port, serve, stores_of
from agentgym_rl.data.files import check_file, write_text
from agentgym_rl.envs.extras import needs


def command(
    runs: Annotated[
        list[str], run_argument("RUN...", "Folders of runs, finished or not, folders of runs, or globs of them.")
    ],
    baseline: Annotated[
        str | None,
        typer.Option(metavar="ARM", help="Compare every arm with this one; left out, with bc of the same runs."),
    ] = None,
    decoding: Annotated[str, typer.Option(help="Which evaluations: sampled or greedy.")] = "sampled",
    by: Annotated[
        str,
        typer.Option(
            "--arms",
            help="Call arms by as few keys as tell them apart (short) or by all that differ (keys); or make each run "
            "an arm, called by its name (run).",
        ),
    ] = "short",
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all numbers as CSV, in percent.")] = None,
    latex: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables as LaTeX.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables as Markdown.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one page with tables and curves.")] = None,
    episodes: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Link runs on the page to DIR/<run folder>/index.html, as `view --html` writes."
        ),
    ] = None,
    view: Annotated[
        bool, typer.Option("--view", help="Show the page in a browser, with the episodes of each run behind it.")
    ] = False,
    port: Port = 0,
    browser: Browser = True,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the learning curves as a picture.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers, one JSON object a line.")] = False,
) -> None:
    """Compare runs of any algorithms and seeds: success, paired differences, cost, curves.

    Runs that differ in nothing but their seed are one arm, and intervals are over seeds; with --arms run, over tasks.
    """
    with needs("comparing", "train"):
        from agentgym_rl.eval.comparison import forms
        from agentgym_rl.eval.comparison.compare import compare
        from agentgym_rl.eval.comparison.rows import rows, write_csv
        from agentgym_rl.eval.comparison.runs import read_all
        from agentgym_rl.eval.comparison.tables import remarks, tables, training

        if html or view:
            from agentgym_rl.eval.comparison.page import links, page, write_page
        if png:
            from agentgym_rl.eval.comparison.charts import write_png

    if episodes is not None and html is None:
        raise ValueError("--episodes links the page to episodes and needs --html")
    if not view and (port or not browser):
        raise ValueError("--port and --no-browser say how to show the page; add --view")
    for named in filter(None, (csv, latex, markdown, html)):
        check_file(named)
    if png is not None:
        check_file(png, ".png")
    whole, begun, damaged = read_all(runs)
    comparison = compare(whole, decoding, baseline, by)
    link = links(comparison, episodes, html.parent) if html and episodes else None
    screen = console()
    if as_json:
        for row in rows(comparison):
            print_json(row)
        for fault in damaged:
            typer.echo(f"left out, damaged: {fault}", err=True)
    else:
        for table in tables(comparison):
            screen.print(forms.Screen(table))
        for line in (*remarks(comparison), *training(comparison, begun, damaged)):
            say(screen, line)
    written = write_png(comparison, png) if png else []  # the only one that a comparison may not have
    written += [write_csv(comparison, csv)] if csv else []
    for file, form in ((latex, forms.latex), (markdown, forms.markdown)):
        if file:
            write_text(file, form(tables(comparison), remarks(comparison)))
            written.append(file)
    written += [write_page(comparison, html, link)] if html else []
    for file in written if not as_json else ():
        say(screen, f"written: {file}")
    if view:
        stores = stores_of([run.folder for run in comparison.runs])
        places = {folder: f"run{number}/" for number, folder in enumerate(stores)}
        front = page(comparison, lambda run: places.get(run.folder))
        episodes_of = {places[folder].rstrip("/"): store for folder, store in stores.items()}
        serve(episodes_of, port, browser, f"{len(comparison.runs)} runs", lambda: front)
