"""``agentgym-rl export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentgym_rl.envs.extras import needs


def command(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run (runs/NAME), a stage of one (runs/NAME:bc) or runs/NAME/checkpoints/global_step_N.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write; it must not exist, or be empty.")],
    step: Annotated[int | None, typer.Option(help="Export the checkpoint of this global step.")] = None,
    dtype: Annotated[
        str, typer.Option(help="float32, bfloat16, or auto: as the run's vLLM servers had the weights.")
    ] = "auto",
    adapter: Annotated[
        bool, typer.Option("--adapter", help="Of a run with LoRA: write the adapters alone, in PEFT's format.")
    ] = False,
) -> None:
    """Write a run's weights as a Hugging Face folder, which transformers and `vllm serve` load.

    Without --step these are the weights its algorithm led to. The rules of the run go with them, so that
    `agentgym-rl eval policy=DIR` uses them.
    """
    with needs("exporting", "cpu"):
        from agentgym_rl.engine.run.export import export, find
    checkpoint = find(run, step)
    export(checkpoint, out, dtype, adapter=adapter)
    typer.echo(f"{out}: {checkpoint}")
