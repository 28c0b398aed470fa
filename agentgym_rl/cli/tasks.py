"""``agentgym-rl tasks``."""

from typing import Annotated

import typer

from agentgym_rl.cli import common

MANY = 2000
"""Above this number of tasks, goals are computed only with --goals."""


def command(
    env: common.EnvName,
    split: Annotated[str, typer.Option(help="Split, or file of item ids, to list.")] = "test",
    n: common.Tasks = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    difficulty: common.Difficulty = None,
    goals: Annotated[
        bool, typer.Option("--goals", help=f"Show goals and digest also for more than {MANY} tasks.")
    ] = False,
    as_json: common.Json = False,
    option: common.Options = None,
) -> None:
    """List the tasks of a split, and the digest that identifies them."""
    from agentgym_rl.data.panels import digest, indices_of, label, sample
    from agentgym_rl.envs import make

    environment = make(env, **common.env_options(env, option))
    tasks = sample(environment, split, difficulty or None, n, seed)
    size = len(indices_of(environment, split))
    with_goals = goals or len(tasks) <= MANY
    split_digest = digest(environment, tasks) if with_goals else None
    rows = [
        {
            "item_id": str(task),
            "difficulty": environment.difficulty(task),
            **({"goal": environment.goal(task)} if with_goals else {}),
        }
        for task in tasks
    ]
    if as_json:
        head = {"env": env, "split": split, "split_size": size, "panel": label(split, difficulty, n, seed)}
        common.print_json({**head, "digest": split_digest, "tasks": rows})
        return
    _print(
        rows, f"{len(tasks):,} of {size:,} tasks in {env} {split}; digest {split_digest or 'not computed, add --goals'}"
    )


def _print(rows: list[dict[str, str]], total: str) -> None:
    from rich.table import Table
    from rich.text import Text

    screen = common.console()
    table = Table(box=None, pad_edge=False)
    for position, column in enumerate(rows[0]):
        table.add_column(column, no_wrap=position < 2)
    for row in rows:
        table.add_row(*map(Text, row.values()))
    common.print_table(screen, table)
    screen.print(total, style="bold", markup=False)
