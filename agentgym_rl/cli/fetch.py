"""``agentgym-rl fetch``."""

from typing import Annotated

import typer

from agentgym_rl.cli.policy import fetched
from agentgym_rl.rollout import pretrained


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help=f"{', '.join(pretrained.NAMES)}; or with :hub, unquantised from the Hugging Face hub."
        ),
    ],
) -> None:
    """Fetch a pretrained model into the user's cache, for machines without a network.

    Commands that use the model (`model=MODEL`, `policy=MODEL`) fetch it themselves where it is missing. The cache is
    AGENTGYM_RL_CACHE, by default ~/.cache/agentgym-rl. A model that is there is checked against its digests.
    """
    if pretrained.find(name) is None:
        raise ValueError(f"{name!r} is no model that has a name; choose {', '.join(pretrained.NAMES)}")
    typer.echo(fetched(name))
