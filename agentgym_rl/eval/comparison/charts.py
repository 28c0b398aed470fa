"""What happened over training, as sections of a page: learning curves, shares of the worlds, horizons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentgym_rl.eval.comparison.arms import Arm
from agentgym_rl.eval.comparison.compare import Comparison
from agentgym_rl.eval.comparison.learning import AXES, Curve, Plot, Timeline
from agentgym_rl.eval.html.chart import Axis, Line, chart, short
from agentgym_rl.eval.html.markup import Child, Markup, tag
from agentgym_rl.eval.html.palette import DASHES, WORLDS, look
from agentgym_rl.eval.html.style import border, variable

LABELS = {"episodes": "training episodes", "tokens": "training tokens", "minutes": "minutes", "steps": "training steps"}
WIDE, HALF = (1120, 360), (560, 280)
"""Sizes of a drawing that stands alone, and beside others."""


def learning_section(comparison: Comparison, drawn: Sequence[Plot]) -> Markup | None:
    """Success over what training has spent, a figure a panel; None without any curve."""
    if not drawn:
        return None
    note = "Lines are means over seeds, bands reach from the least to the greatest seed; all count from where the "
    note += "algorithm starts."
    if any(plot.controls for plot in drawn):
        note += " Dotted to a hollow marker: the control, as many updates on expert data alone."
    figures = [_success(comparison, plot, WIDE if len(drawn) == 1 else HALF) for plot in drawn]
    return _section("Learning curves", "curves", figures, note)


def share_section(found: Sequence[Timeline]) -> Markup | None:
    """Share of each world in a step's episodes, a figure an arm in which it varies; None where there is one world."""
    if len({env for _, curves in found for env in curves}) < 2:
        return None
    note = "Share of a step's training episodes, %: mean over seeds, band from the least to the greatest."
    return _over_time("Shares of the worlds", "shares", found, 100.0, note)


def horizon_section(found: Sequence[Timeline]) -> Markup | None:
    """Turn limit of each world's training episodes, a figure an arm in which it varies."""
    note = "Most turns of a training episode: mean over seeds, band from the least to the greatest."
    return _over_time("Horizon", "horizon", found, 1.0, note)


def _success(comparison: Comparison, plot: Plot, size: tuple[int, int]) -> Markup:
    highest = max([max(curve.high) for _, curve in plot.curves] + [value for _, _, value in plot.controls])
    y = Axis.to(min(100.0, max(5.0, 108 * highest)))
    numbers = {arm.label: number for number, arm in enumerate(comparison.arms)}
    controls = {label: (minutes, value) for label, minutes, value in plot.controls}
    what = "training episodes" if plot.panel is None else f"{plot.panel.replace('_', ' ')}, {comparison.decoding}"

    def lines(axis: str) -> list[Line]:
        drawn = []
        for arm, curve in plot.curves:
            x, number = curve.along(axis), numbers[arm.label]
            if x is None:
                continue
            colour, dashes = look(comparison.arms, number)
            hue = variable(colour)
            drawn.append(_line(arm.label, curve, x, 100.0, "%", hue=hue, dashes=dashes, key=number))
            if arm.label in controls:
                minutes, value = controls[arm.label]
                end = minutes if axis == "minutes" else x[-1]
                says = [f"{arm.label}: {100 * curve.mean[0]:.1f}% at the start"]
                says += [f"control of {arm.label}: {100 * value:.1f}% after {minutes:.1f} minutes"]
                ends = [100 * curve.mean[0], 100 * value]
                drawn.append(
                    Line(f"control of {arm.label}", hue, [0.0, end], ends, says, dashes=":", hollow=True, key=number)
                )
        return drawn

    caption = [tag("b", plot.env), " ", tag("small", f"{what}, success in %")]
    without = [arm.label for arm, curve in plot.curves if curve.tokens is None]
    return _figure(caption, {axis: lines(axis) for axis in AXES}, f"{plot.env}, {what}: success in %", y, size, without)


def _over_time(title: str, name: str, found: Sequence[Timeline], scale: float, note: str) -> Markup | None:
    if not found:
        return None
    envs = sorted({env for _, curves in found for env in curves})
    hues = {env: variable(WORLDS[place % len(WORLDS)]) for place, env in enumerate(envs)}
    dashes = {env: DASHES[place % len(DASHES)] for place, env in enumerate(envs)}  # where lines lie on each other
    moving = [one for one in found if any(curve.varies for curve in one[1].values())]
    unit = "%" if scale == 100.0 else ""
    highest = max((max(curve.high) for _, curves in moving for curve in curves.values()), default=0.0)
    y = Axis.to(100.0) if unit else Axis.to(highest, whole=True)
    figures = [
        _timeline(one, hues, dashes, title, scale, unit, y, WIDE if len(moving) == 1 else HALF) for one in moving
    ]
    key = tag(
        "ul",
        [tag("li", tag("i", style=f"--hue:{hues[env]};border-top-style:{border(dashes[env])}"), env) for env in envs],
        class_="key-list",
    )
    still: dict[str, list[str]] = {}
    for arm, curves in found:
        if not any(curve.varies for curve in curves.values()):
            still.setdefault(_constants(curves, scale, unit), []).append(arm.label)
    constant = [
        tag("p", tag("b", values), f", constant in: {'; '.join(arms)}", class_="note") for values, arms in still.items()
    ]
    return _section(title, name, figures, note if moving else None, key if moving else None, constant)


def _timeline(
    one: Timeline, hues: Mapping[str, str], dashes: Mapping[str, str], title: str, scale: float, unit: str, y: Axis,
    size: tuple[int, int],
) -> Markup:  # fmt: skip
    arm, curves = one
    lines = {
        axis: [
            _line(env, curve, x, scale, unit, hue=hues[env], dashes=dashes[env], stepped=True)
            for env, curve in curves.items()
            if (x := curve.along(axis)) is not None
        ]
        for axis in AXES
    }
    without = [arm.label] if any(curve.tokens is None for curve in curves.values()) else []
    return _figure([tag("b", arm.label)], lines, f"{arm.label}: {title}", y, size, without)


def _line(
    label: str, curve: Curve, x: Sequence[float], scale: float, unit: str, *, hue: str, dashes: str = "-",
    stepped: bool = False, key: int = -1,
) -> Line:  # fmt: skip
    return Line(
        label, hue, x, [scale * value for value in curve.mean], _says(label, curve, scale, unit),
        band=([scale * value for value in curve.low], [scale * value for value in curve.high]),
        dashes=dashes, stepped=stepped, key=key,
    )  # fmt: skip


def _says(label: str, curve: Curve, scale: float, unit: str) -> list[str]:
    """Each point of a curve in words."""
    digits = 1 if unit else 0
    said = []
    for place, step in enumerate(curve.steps):
        text = f"{label}: {scale * curve.mean[place]:.{digits}f}{unit}"
        if curve.seeds > 1:
            ends = (f"{scale * one[place]:.{digits}f}" for one in (curve.low, curve.high))
            text += f" ({' to '.join(ends)} over {curve.seeds} seeds)"
        spent = [f"step {step}", f"{curve.episodes[place]:,.0f} episodes"]
        spent += [f"{short(curve.tokens[place])} tokens"] if curve.tokens is not None else []
        said.append(f"{text} · {', '.join(spent)}, {curve.minutes[place]:.1f} minutes")
    return said


def _constants(curves: Mapping[str, Curve], scale: float, unit: str) -> str:
    return " · ".join(f"{env} {scale * curve.mean[0]:.0f}{unit}" for env, curve in curves.items())


def _figure(
    caption: Child, lines: Mapping[str, Sequence[Line]], name: str, y: Axis, size: tuple[int, int],
    without_tokens: Sequence[str],
) -> Markup:  # fmt: skip
    """The same lines over every axis; the page shows one of them."""
    shown = []
    for axis, own in lines.items():
        missing = [tag("p", f"Tokens are not known of: {'; '.join(without_tokens)}", class_="note")]
        drawing = None
        if own:
            x = Axis.to(max(max(line.x) for line in own), count=6, whole=axis != "minutes")
            drawing = chart(own, name=name, x_label=LABELS[axis], x=x, y=y, size=size)
        shown.append(
            tag("div", drawing, missing if axis == "tokens" and without_tokens else None, class_="along", data_x=axis)
        )
    return tag("figure", tag("figcaption", caption), shown)


def _section(title: str, name: str, figures: Sequence[Markup], note: str | None, *more: Child) -> Markup:
    return tag(
        "section", tag("h2", title), tag("p", note, class_="note") if note else None, more,
        tag("div", figures, class_="figures") if figures else None, id=name,
    )  # fmt: skip


def tokens_known(drawn: Sequence[Plot], *timelines: Sequence[Timeline]) -> bool:
    """Whether any curve can be drawn against tokens."""
    curves = [curve for plot in drawn for _, curve in plot.curves]
    curves += [curve for found in timelines for _, own in found for curve in own.values()]
    return any(curve.tokens is not None for curve in curves)


def arms_drawn(drawn: Sequence[Plot]) -> list[Arm]:
    """Arms that have a curve, each once."""
    return list({arm.label: arm for plot in drawn for arm, _ in plot.curves}.values())
