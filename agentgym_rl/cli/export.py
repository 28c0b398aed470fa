"""``agentgym-rl export``."""

from pathlib import Path
from typing import Annotated

import typer

from agentgym_rl.cli.common import run_argument
from agentgym_rl.envs.extras import needs


def command(
    run: Annotated[
        str,
        run_argument(
            "RUN",
            "A run (runs/NAME), a stage of one (runs/NAME:bc) or runs/NAME/checkpoints/global_step_N; with "
            "--inspect a run or the folder of an evaluation.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder to write; for weights it must not exist, or be empty.")
    ],
    step: Annotated[int | None, typer.Option(help="Export the checkpoint of this global step.")] = None,
    dtype: Annotated[
        str, typer.Option(help="float32, bfloat16, or auto: float32 for a run on a CPU, else bfloat16.")
    ] = "auto",
    adapter: Annotated[
        bool, typer.Option("--adapter", help="Of a run with LoRA: write the adapters alone, in PEFT's format.")
    ] = False,
    inspect: Annotated[
        bool, typer.Option("--inspect", help="Write the evaluations as logs of Inspect AI instead.")
    ] = False,
) -> None:
    """Write a run's weights as a Hugging Face folder, which transformers and `vllm serve` load.

    Without --step these are the weights its algorithm led to. The rules of the run go with them, so that
    `agentgym-rl eval policy=DIR` uses them.

    With --inspect, write the episodes of its evaluations as logs that `inspect view --log-dir DIR` opens.
    """
    if inspect:
        if step is not None or adapter or dtype != "auto":
            raise ValueError("--step, --dtype and --adapter are for weights; --inspect takes none of them")
        from agentgym_rl.eval.inspect_log import export as export_logs

        for file in export_logs(Path(run), out):
            typer.echo(file)
        return
    with needs("exporting", "cpu"):
        from agentgym_rl.engine.recipe.checkpoint import find
        from agentgym_rl.engine.run.export import export
    checkpoint = find(run, step)
    export(checkpoint, out, dtype, adapter=adapter)
    typer.echo(f"{out}: {checkpoint}")
