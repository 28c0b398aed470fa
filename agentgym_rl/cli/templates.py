"""``agentgym-rl templates``."""

import logging
from typing import Annotated

import typer

from agentgym_rl.envs.extras import needs

ESCAPED = str.maketrans({"|": r"\|", "<": r"\<"})
"""What Markdown would take for its own."""


def command(
    place: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|FOLDER",
            help="A model's folder or hub id, or a folder of NAME.jinja or NAME@MODEL_TYPE.jinja.",
        ),
    ],
) -> None:
    """Check that chat templates render what an episode's tokens grow to; exit status 1 where one does not.

    A run checks its own model's template before it starts.
    """
    with needs("chat templates", "cpu"):
        from agentgym_rl.rollout.survey import survey

    logging.getLogger("verl").setLevel(logging.ERROR)  # which builder it takes is no concern here
    refused = False
    typer.echo("| template | | |\n|---|---|---|")
    for fit in survey(place):
        refused |= not fit.wordings
        cells = (fit.name, fit.verdict, "; ".join([*fit.repairs, fit.reason] if fit.reason else fit.repairs))
        typer.echo("".join(f"| {cell.translate(ESCAPED)} " for cell in cells) + "|")
    raise typer.Exit(int(refused))
