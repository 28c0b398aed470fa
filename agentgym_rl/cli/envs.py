"""``agentgym-rl envs``."""

from typing import Any

from agentgym_rl.cli.common import Json, print_json
from agentgym_rl.envs import TextEnv, available, make


def command(as_json: Json = False) -> None:
    """List the installed environments."""
    rows = [_row(name) for name in available()]
    if as_json:
        print_json(rows)
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for column in ("environment", "splits", "turns", "oracle", "official tasks", "extra", "licence of the data"):
        table.add_column(column, overflow="fold", no_wrap=column == "splits")
    for row in rows:
        if "error" in row:
            table.add_row(row["name"], "", "", "", "", "", f"[red]{escape(row['error'])}[/red]")
            continue
        splits = "\n".join(f"{split} {size:,}" for split, size in row["splits"].items())
        oracle = "yes" if row["oracle"] else "no"
        facts = (str(row["max_turns"]), oracle, row["official_tasks"] or "none", row["extra"] or "none", row["licence"])
        table.add_row(row["name"], splits, *facts)
    Console().print(table)


def _row(name: str) -> dict[str, Any]:
    try:
        env = make(name)
        spec = env.spec
    except Exception as error:  # noqa: BLE001 - a broken plug-in, which may raise anything, must not hide the others
        return {"name": name, "error": str(error) or type(error).__name__}
    return {
        "name": name,
        "splits": {split: len(indices) for split, indices in spec.splits.items()},
        "max_turns": spec.max_turns,
        "oracle": type(env).oracle is not TextEnv.oracle,
        "official_tasks": spec.official,
        "extra": spec.extra,
        "licence": spec.licence,
    }
