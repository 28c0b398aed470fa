"""What a finished run shows: a table and a picture."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from agentgym_rl.eval.html.chart import Chart, Line
from agentgym_rl.eval.html.palette import ENVS


def results(summary: Mapping[str, Any]) -> Table:
    """Success by policy and panel, sampled and greedy; the random policy and the oracle are bounds."""
    stages = summary["stages"]
    last = stages[-1]["panels"]
    panels = [(label, env) for label, by_env in last.items() for env in by_env]
    table = Table(title="Success in % with 95% interval", title_justify="left")
    table.add_column("policy", no_wrap=True)
    for label, env in panels:
        n = last[label][env]["sampled"]["n"]
        table.add_column(f"{env}\n{label.replace('_', ' ')}\nsampled, n={n}", justify="right", no_wrap=True)
        if "greedy" in last[label][env]:
            table.add_column(f"\n\ngreedy, n={last[label][env]['greedy']['n']}", justify="right", no_wrap=True)
    bounds = summary.get("reference", {})
    rows = [("random", bounds.get("random"))]
    rows += [(stage["name"], stage["panels"]) for stage in stages]
    rows += [("oracle", bounds.get("oracle"))]
    for name, scores in rows:
        if scores is None:
            continue
        cells: list[str] = []
        for label, env in panels:
            decodings = scores.get(label, {}).get(env, {})  # bounds are known of tasks that this package has
            by_decoding = {"sampled": decodings} if "success" in decodings else decodings
            cells += [
                percent(by_decoding[decoding]) if decoding in by_decoding else "-" for decoding in last[label][env]
            ]
        table.add_row(name, *cells)
    return table


def percent(score: Mapping[str, Any]) -> str:
    """Success with its 95% interval, in percent; ``-`` where no episode counts."""
    if not score["n"]:
        return "-"
    low, high = score["ci95"]
    return f"{100 * score['success']:.1f} [{100 * low:.0f}, {100 * high:.0f}]"


def draw(summary: Mapping[str, Any], metrics: Sequence[Mapping[str, Any]], path: Path, title: str) -> Path:
    """Draw success on the panels (by stage, with 95% intervals) and of training episodes (by step).

    Args:
        summary: as in ``summary.json``.
        metrics: rows of ``metrics.jsonl``.
        path: PNG to write.
    """
    from agentgym_rl.eval import png

    stages = summary["stages"]
    panels = [(label, env) for label, by_env in stages[-1]["panels"].items() for env in by_env] if stages else []
    trained = {key.split("/")[1] for row in metrics for key in row if key.startswith("env/")}
    envs = sorted({env for _, env in panels} | trained)
    colours = {env: ENVS[place % len(ENVS)] for place, env in enumerate(envs)}
    by_stage = Chart(
        "Panels, sampled, with 95% intervals", {"stages": ""}, list(_stage_lines(stages, panels, colours)), 100.0,
        y_label="success, %", names=[stage["name"] for stage in stages],
    )  # fmt: skip
    training = [_training_line(env, metrics, colours[env]) for env in envs]
    by_step = Chart(
        "Training episodes, sampled", {"episodes": "training episodes"}, [line for line in training if line.y], 100.0
    )
    caption = f"{title}. Dotted to a hollow marker: the control, which starts from bc."
    return png.write(path, [[(by_stage, "stages"), (by_step, "episodes")]], caption, (3, 2))


def _stage_lines(
    stages: Sequence[Mapping[str, Any]], panels: Sequence[tuple[str, str]], colours: Mapping[str, str]
) -> Iterator[Line]:
    """A line per panel through the stages that follow each other, and one from bc to the control."""
    names = [stage["name"] for stage in stages]
    ways = [([place for place, name in enumerate(names) if name != "control"], False)]
    if "control" in names and "bc" in names:
        ways.append(([names.index("bc"), names.index("control")], True))
    seen: set[str] = set()
    for number, (label, env) in enumerate(panels):
        shift = 0.06 * (number - (len(panels) - 1) / 2)
        dashes = "--" if env in seen else "-"  # a second panel of the same environment
        seen.add(env)
        for through, control in ways:
            known = {place: stages[place]["panels"][label][env]["sampled"] for place in through}
            places = [place for place, result in known.items() if result["n"]]
            scores = [known[place] for place in places]
            if not scores:
                continue
            yield Line(
                "" if control else f"{env}: {label.replace('_', ' ')}", colours[env],
                {"stages": [place + shift for place in places]}, [100 * score["success"] for score in scores],
                band=([100 * score["ci95"][0] for score in scores], [100 * score["ci95"][1] for score in scores]),
                dashes=":" if control else dashes, hollow=control, whiskers=True,
            )  # fmt: skip


def _training_line(env: str, metrics: Sequence[Mapping[str, Any]], colour: str) -> Line:
    """Success by step, with a gap where a step has episodes of other environments only."""
    key = f"env/{env}/success"
    rows = [row for row in metrics if any(name.startswith("env/") for name in row)]
    rows = rows if any(key in row for row in rows) else []
    x = {"episodes": [row["run/episodes"] for row in rows]}
    return Line(f"{env}: training", colour, x, [100 * row.get(key, math.nan) for row in rows])
