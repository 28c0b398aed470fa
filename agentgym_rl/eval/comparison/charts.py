"""The charts of a comparison, for its page and as pictures: learning curves, shares of environments, turn limits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym_rl.eval.comparison.arms import Arm
from agentgym_rl.eval.comparison.compare import Comparison
from agentgym_rl.eval.comparison.learning import AXES, ArmCurves, Curve, Plot, arm_curves, plots
from agentgym_rl.eval.comparison.tables import BOUNDS
from agentgym_rl.eval.html.chart import Chart, Line
from agentgym_rl.eval.html.palette import ARMS, DASHES, ENVS, STAGES

MEANING = (
    "Lines are means over seeds, bands reach from the least to the greatest seed. All count from where the algorithm "
    "starts."
)
SMOOTHED = "Lines of many points are moving means over a tenth of them; the faint points are what was measured."
CONTROL = "Dotted to a hollow marker: the control, which takes as many updates on demonstrations alone."


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with what stands above and below it."""

    title: str
    note: str
    chart: Chart
    without_tokens: tuple[str, ...]
    """Arms whose tokens are not known."""


def look(arms: Sequence[Arm], number: int) -> tuple[str, str]:
    """Colour and line style of an arm among all arms."""
    arm = arms[number]
    like = [earlier for earlier in arms[:number] if (earlier.stage in STAGES) == (arm.stage in STAGES)]
    if arm.stage in STAGES:
        return STAGES[arm.stage], DASHES[(2 + sum(arm_like.stage == arm.stage for arm_like in like)) % len(DASHES)]
    return ARMS[len(like) % len(ARMS)], DASHES[len(like) // len(ARMS) % len(DASHES)]


def env_looks(all_curves: Sequence[ArmCurves]) -> dict[str, tuple[str, str]]:
    """Colour and line style of each environment; styles differ because lines may lie on each other."""
    envs = sorted({env for _, curves in all_curves for env in curves})
    return {env: (ENVS[place % len(ENVS)], DASHES[place % len(DASHES)]) for place, env in enumerate(envs)}


def meaning(comparison: Comparison, drawn: Sequence[Plot]) -> str:
    """What the learning curves show, in sentences."""
    curves = [curve for plot in drawn for _, curve in plot.curves]
    sentences = [MEANING]
    if any(curve.smoothed for curve in curves):
        sentences.append(SMOOTHED)
    if any(plot.controls for plot in drawn):
        sentences.append(CONTROL)
    alone = list(dict.fromkeys(arm.label for plot in drawn for arm, curve in plot.curves if curve.seeds < 2))
    if alone:
        sentences.append(f"One seed gives no band: {', '.join(alone)}.")
    if comparison.reference and any(plot.panel is not None for plot in drawn):
        sentences.append(f"Dotted across: {BOUNDS}.")
    return " ".join(sentences)


def learning_figure(comparison: Comparison, plot: Plot) -> Figure:
    """Success on a panel over what training has spent."""
    numbers = {arm.label: number for number, arm in enumerate(comparison.arms)}
    lines = []
    for arm, curve in plot.curves:
        number = numbers[arm.label]
        colour, dashes = look(comparison.arms, number)
        drawn = _pieces(arm.label, curve, colour, dashes, scale=100.0, unit="%", key=number)
        if (smooth := curve.smoothed) is not None:
            lines += [replace(line, faint=True, loose=True, band=None) for line in drawn]
            smoothed = _pieces(arm.label, smooth, colour, dashes, scale=100.0, unit="%", key=number)
            drawn = [replace(line, says=unsmoothed.says) for line, unsmoothed in zip(smoothed, drawn, strict=True)]
        lines += drawn
        lines += [_control(arm, curve, control, colour, number) for control in plot.controls if control[0] == arm.label]
    bounds = {policy: scores.get((plot.env, plot.panel or "")) for policy, scores in comparison.reference.items()}
    references = {policy: 100 * value for policy, value in bounds.items() if value is not None}
    highest = max([*(max(curve.high) for _, curve in plot.curves), *(value for _, _, value in plot.controls)])
    what = "training episodes" if plot.panel is None else f"{plot.panel.replace('_', ' ')}, {comparison.decoding}"
    n = f", n = {plot.n:,}" if plot.n is not None else ""
    name, top = f"{plot.env}: {what}", min(100.0, max(5.0, 108 * highest, 1.04 * max(references.values(), default=0.0)))
    without = tuple(arm.label for arm, curve in plot.curves if "tokens" not in curve.x)
    chart = Chart(name, AXES, lines, top, y_label="success, %", references=references)
    return Figure(plot.env, f"{what}{n}", chart, without)


def over_time(title: str, all_curves: Sequence[ArmCurves], percent: bool) -> list[Figure]:
    """Shares or turn limits of the environments over training, a figure per arm in which they vary."""
    moving = [(arm, curves) for arm, curves in all_curves if any(curve.varies for curve in curves.values())]
    looks = env_looks(all_curves)
    scale, unit = (100.0, "%") if percent else (1.0, "")
    top = 100.0 if percent else max((max(curve.high) for _, by_env in moving for curve in by_env.values()), default=1.0)
    figures = []
    for arm, curves in moving:
        lines = [
            line
            for env, curve in curves.items()
            for line in _pieces(env, curve, *looks[env], scale=scale, unit=unit, stepped=True)
        ]
        without = (arm.label,) if any("tokens" not in curve.x for curve in curves.values()) else ()
        chart = Chart(f"{arm.label}: {title}", AXES, lines, top, whole=not percent, y_label=title, height=320)
        figures.append(Figure(arm.label, "", chart, without))
    return figures


def constants(all_curves: Sequence[ArmCurves], percent: bool) -> dict[str, list[str]]:
    """Arms in which nothing varies, by their values in words."""
    scale, unit = (100.0, "%") if percent else (1.0, "")
    still: dict[str, list[str]] = {}
    for arm, curves in all_curves:
        if not any(curve.varies for curve in curves.values()):
            values = " · ".join(f"{env} {scale * curve.mean[0]:.0f}{unit}" for env, curve in curves.items())
            still.setdefault(values, []).append(arm.label)
    return still


def write_png(comparison: Comparison, path: Path) -> list[Path]:
    """Write the learning curves, and beside them the shares of the environments (``<name>-shares.png``) that vary.

    Raises:
        ValueError: no run trains online.
    """
    from agentgym_rl.eval import png

    drawn = plots(comparison)
    if not drawn:
        raise ValueError("there are no curves to draw: no run spent training episodes or kept its metrics")
    figures = [learning_figure(comparison, plot) for plot in drawn]
    rows = [[(figure.chart, axis) for axis in ("episodes", "minutes")] for figure in figures]
    written = [png.write(path, rows, meaning(comparison, drawn))]
    varying = over_time("share of episodes, %", arm_curves(comparison, "share"), percent=True)
    if varying:
        file = path.with_name(f"{path.stem}-shares.png")
        written.append(png.write(file, [[(figure.chart, "steps")] for figure in varying]))
    return written


def _control(arm: Arm, curve: Curve, control: tuple[str, float, float], colour: str, number: int) -> Line:
    """From where the algorithm starts to where its control ends, at the end of the algorithm's own curve."""
    _, minutes, value = control
    ends = {axis: [0.0, minutes if axis == "minutes" else places[-1]] for axis, places in curve.x.items()}
    says = [
        f"{arm.label}: {100 * curve.mean[0]:.1f}% at the start",
        f"control of {arm.label}: {100 * value:.1f}% after {minutes:.1f} minutes",
    ]
    y = [100 * curve.mean[0], 100 * value]
    return Line(f"control of {arm.label}", colour, ends, y, says, dashes=":", hollow=True, key=number)


def _pieces(
    label: str, curve: Curve, colour: str, dashes: str, *, scale: float, unit: str, stepped: bool = False, key: int = -1
) -> list[Line]:
    """A line for each piece of a curve, under one label."""
    lines = []
    for piece in curve.thinned.pieces:
        mean, low, high = ([scale * value for value in values] for values in (piece.mean, piece.low, piece.high))
        band = (low, high) if piece.seeds > 1 else None
        says = _says(label, piece, scale, unit)
        lines.append(Line(label, colour, piece.x, mean, says, band, dashes, stepped, key=key))
    return lines


def _says(label: str, curve: Curve, scale: float, unit: str) -> list[str]:
    """Each point of a curve in words."""
    digits = 1 if unit else 0
    texts = []
    for place, value in enumerate(curve.mean):
        text = f"{label}: {scale * value:.{digits}f}{unit}"
        if curve.seeds > 1:
            ends = (f"{scale * edge[place]:.{digits}f}" for edge in (curve.low, curve.high))
            text += f" ({' to '.join(ends)} over {curve.seeds} seeds)"
        x = {axis: places[place] for axis, places in curve.x.items()}
        tokens = f", {short(x['tokens'])} tokens" if "tokens" in x else ""
        spent = f"step {x['steps']:.0f}, {x['episodes']:,.0f} episodes{tokens}, {x['minutes']:.1f} minutes"
        texts.append(f"{text} · {spent}")
    return texts


def short(value: float) -> str:
    """``1.5M``, ``2k``, ``150``."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.0f}"
