"""``agentgym-rl envs``."""

from __future__ import annotations

from agentgym_rl.envs import TextEnv, available, make
from agentgym_rl.envs.core import EnvError


def command() -> None:
    """List the installed environments."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for column in ("environment", "splits", "turns", "oracle", "extra", "licence of the data"):
        table.add_column(column, overflow="fold", no_wrap=column == "splits")
    for name in available():
        try:
            env = make(name)
        except (EnvError, ImportError) as error:  # a broken plug-in must not hide the others
            table.add_row(name, "", "", "", "", f"[red]{escape(str(error))}[/red]")
            continue
        spec = env.spec
        splits = "\n".join(f"{split} {len(indices):,}" for split, indices in spec.splits.items())
        oracle = "no" if type(env).oracle is TextEnv.oracle else "yes"
        table.add_row(name, splits, str(spec.max_turns), oracle, spec.extra or "none", spec.licence)
    Console().print(table)
