"""``agentgym-rl convert``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agentgym_rl.envs import item_ids
from agentgym_rl.envs.registry import available


class Format(StrEnum):
    """What can be written."""

    agenttraj = "agenttraj"
    inference = "inference"
    verl = "verl"
    trl = "trl"
    preference = "preference"


LEARNED = (Format.agenttraj, Format.verl, Format.trl, Format.preference)
"""What is learned from, so that a trajectory needs a response; that of an API which refused at once has none."""


def command(
    source: Annotated[
        str,
        typer.Argument(
            help="AgentTraj JSON or messages with role and content, AgentGym's inference output (a file or "
            "openai_eval's folder), DPO pairs, AgentGym-RL's rollout logs (a file or folder) or a run's episodes "
            "(.parquet); on the hub <owner>/<data set>:<file>."
        ),
    ],
    out: Annotated[Path, typer.Argument(help="File to write.")],
    to: Annotated[
        Format,
        typer.Option(
            "--to",
            help="agenttraj, inference (AgentGym's jsonl), verl or trl (SFT parquet), preference (AgentGym's DPO).",
        ),
    ],
    env: Annotated[
        str | None, typer.Option("--env", help="Environment of DPO pairs and rollout logs, whose tasks are numbers.")
    ] = None,
    successes: Annotated[bool, typer.Option("--successes", help="Leave out what is known to have failed.")] = False,
    per_task: Annotated[
        int | None, typer.Option(min=1, help="Keep at most this many of a task, the shortest first.")
    ] = None,
) -> None:
    """Convert trajectories from one published format to another."""
    from agentgym_rl.data.convert import ENDS, FORMATS, keep, learnable, read
    from agentgym_rl.data.files import check_file

    check_file(out, ENDS[to])
    if out.suffix == ".json" and Path(source).resolve() in out.resolve().parents:
        raise ValueError(f"{out} is in {source}, of which every JSON file is read; write it elsewhere")
    if env is not None and env not in available():
        raise ValueError(f"--env {env}: there is no such environment; there are {', '.join(available())}")
    records = read(source, env)
    tasks = [record.trajectory.item_id for record in records]
    if env is not None and tasks and env not in {(item_ids.read(task) or (env,))[0] for task in tasks}:
        raise ValueError(f"--env {env} has no effect: tasks name their environment, such as {tasks[0]}; leave it out")
    kept = keep(records, successes=successes)
    if to in LEARNED and (silent := [record for record in kept if True not in record.trajectory.loss]):
        kept = learnable(kept)
        typer.echo(f"left out: {len(silent)} without a response to train on, such as {silent[0].trajectory.item_id}")
    kept = keep(kept, per_task=per_task)
    if not kept:
        raise ValueError(f"{source}: none of {len(records)} trajectories is kept")
    written = FORMATS[to](out, kept)
    typer.echo(f"{out}: {written} of {len(records)} trajectories, as {to}")
