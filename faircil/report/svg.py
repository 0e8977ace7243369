"""Small drawings as SVG text, in the colours of their page.

Each is drawn for the width of a phone, so that its letters stay readable there; a wide page shows
several next to each other. Colours are classes of ``style.css``: ``s0`` to ``s6`` for series. No
drawing refers to anything outside itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10

from faircil.report.page import escaped, percent

COLOURS = 7  # s0 to s6
SHAPES = ("circle", "square", "triangle", "diamond", "down", "plus", "cross")
LEFT, RIGHT, TOP, BOTTOM = 40.0, 10.0, 8.0, 34.0  # margins around a chart
RADIUS = 4.0


@dataclass(frozen=True)
class Series:
    """A line: a value after each task, None for a gap, and optionally its interval."""

    name: str
    values: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    style: int = 0


@dataclass(frozen=True)
class Point:
    """A method in the plane: disparity (x) and accuracy (y), each as (mean, low, high)."""

    name: str
    across: tuple[float, float | None, float | None]
    up: tuple[float, float | None, float | None]
    style: int = 0
    on_front: bool = False


@dataclass(frozen=True)
class Axis:
    """A scale from values to positions along a side of the drawing."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the position of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """Return about four round numbers within the scale."""
        step = _round_step((self.high - self.low) / 4)
        first = -floor(-self.low / step + 1e-9)
        last = floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def _round_step(size: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least ``size``."""
    power = 10.0 ** floor(log10(size))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= size * (1 - 1e-9))


def style_class(style: int) -> str:
    """Return the CSS class of a series' colour."""
    return f"s{style % COLOURS}"


def marker(style: int, x: float, y: float, title: str = "", radius: float = RADIUS) -> str:
    """Draw the marker of a series: its shape differs from others of the same colour."""
    shape = SHAPES[(style + style // COLOURS) % len(SHAPES)]
    r, told = radius, f"<title>{escaped(title)}</title>" if title else ""
    name = f'class="mark {style_class(style)}"'
    if shape == "circle":
        return f'<circle {name} cx="{x:.1f}" cy="{y:.1f}" r="{r:g}">{told}</circle>'
    corners = {
        "square": [(-r, -r), (r, -r), (r, r), (-r, r)],
        "triangle": [(0, -1.2 * r), (1.15 * r, r), (-1.15 * r, r)],
        "diamond": [(0, -1.3 * r), (1.3 * r, 0), (0, 1.3 * r), (-1.3 * r, 0)],
        "down": [(0, 1.2 * r), (1.15 * r, -r), (-1.15 * r, -r)],
        "plus": _cross(r),
        "cross": [((a - b) * 0.75, (a + b) * 0.75) for a, b in _cross(r)],
    }[shape]
    points = " ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in corners)
    return f'<polygon {name} points="{points}">{told}</polygon>'


def _cross(r: float) -> list[tuple[float, float]]:
    thin, wide = 0.4 * r, 1.2 * r
    arm = [(-thin, -wide), (thin, -wide), (thin, -thin)]
    corners: list[tuple[float, float]] = []
    for _ in range(4):  # each arm is the previous one rotated by a right angle
        corners += arm
        arm = [(-b, a) for a, b in arm]
    return corners


def legend_mark(style: int) -> str:
    """Draw the marker of a series for a legend, which gives its name."""
    return f'<svg class="key" viewBox="0 0 14 14" aria-hidden="true">{marker(style, 7, 7)}</svg>'


def drawing(parts: Iterable[str], width: float, height: float, title: str) -> str:
    """Combine parts; ``title`` describes the drawing, for readers who cannot see it."""
    text = escaped(title)
    return (
        f'<svg class="drawing" role="img" viewBox="0 0 {width:g} {height:g}" aria-label="{text}">'
        f"<title>{text}</title>{''.join(parts)}</svg>"
    )


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    limits: tuple[float | None, float | None] = (0.0, None),
    size: tuple[float, float] = (340.0, 210.0),
) -> str:
    """Draw values after each task: a line for each series, with a band for intervals.

    Parameters
    ----------
    series : sequence of Series
        With at least one value.
    title : str
        Description, in a sentence.
    limits : tuple
        Ends of the vertical axis; None: determined by the values.
    size : tuple
    """
    width, height = size
    length = max(len(one.values) for one in series)
    # Bands are cut off at the ends of the axis: over two seeds, they would dwarf the lines.
    known = [v for one in series for v in one.values if v is not None]
    across = Axis(1, max(length, 2), LEFT + 8, width - RIGHT - 6)
    up = Axis(*_ends(known, limits), height - BOTTOM, TOP)
    parts = [
        _frame(up, width),
        _task_labels(across, length, height),
        _x_title("after task", width, height),
    ]
    for one in series:
        parts.append(_band(one, across, up))
    for one in series:
        parts += _line(one, across, up)
    return drawing(parts, width, height, title)


def _ends(
    values: Sequence[float], limits: tuple[float | None, float | None]
) -> tuple[float, float]:
    low = min(0.0, *values) if limits[0] is None else limits[0]
    high = max(values) if limits[1] is None else limits[1]
    if high <= low:
        high = low + 0.1
    if limits[1] is None:
        step = _round_step((high - low) / 4)
        high = -floor(-high / step + 1e-9) * step
    return low, high


def _frame(up: Axis, width: float) -> str:
    lines = []
    for tick in up.ticks:
        y = up.at(tick)
        lines.append(f'<path class="grid" d="M{LEFT:g} {y:.1f}H{width - RIGHT:g}"/>')
        lines.append(
            f'<text x="{LEFT - 5:g}" y="{y + 4:.1f}" class="end">{percent(tick, 0)}</text>'
        )
    return "".join(lines)


def _task_labels(across: Axis, length: int, height: float) -> str:
    every = -(-length // 10)  # at most ten numbers fit
    return "".join(
        f'<text class="middle" x="{across.at(task):.1f}" y="{height - BOTTOM + 15:g}">{task}</text>'
        for task in range(1, length + 1, every)
    )


def _x_title(text: str, width: float, height: float) -> str:
    middle = (LEFT + width - RIGHT) / 2
    return f'<text class="middle faint" x="{middle:g}" y="{height - 5:g}">{escaped(text)}</text>'


def _band(one: Series, across: Axis, up: Axis) -> str:
    edges = [
        (task, low, high)
        for task, (low, high) in enumerate(zip(one.low, one.high, strict=True), start=1)
        if low is not None and high is not None
    ]
    if not edges:
        return ""
    there = [(task, min(high, up.high)) for task, _, high in edges]
    back = [(task, max(low, up.low)) for task, low, _ in reversed(edges)]
    points = " ".join(f"{across.at(task):.1f},{up.at(v):.1f}" for task, v in (*there, *back))
    return f'<polygon class="band {style_class(one.style)}" points="{points}"/>'


def _line(one: Series, across: Axis, up: Axis) -> list[str]:
    path, pen = [], "M"
    marks = []
    for task, value in enumerate(one.values, start=1):
        if value is None:
            pen = "M"  # a gap
            continue
        x, y = across.at(task), up.at(value)
        path.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L"
        title = f"{one.name}, after task {task}: {percent(value)}"
        marks.append(marker(one.style, x, y, title))
    return [f'<path class="line {style_class(one.style)}" d="{"".join(path)}"/>', *marks]


def front_chart(
    points: Sequence[Point],
    *,
    title: str,
    across_title: str,
    size: tuple[float, float] = (420.0, 280.0),
) -> str:
    """Draw accuracy against disparity, with the Pareto front.

    Up and to the left is better.

    Parameters
    ----------
    points : sequence of Point
    title, across_title : str
        Description; title of the horizontal axis.
    size : tuple
    """
    width, height = size
    across_all = [v for one in points for v in one.across if v is not None and isfinite(v)]
    up_all = [v for one in points for v in one.up if v is not None and isfinite(v)]
    across = Axis(*_ends(across_all, (0.0, None)), LEFT, width - 2 * RIGHT)  # room for a number
    bottom = max(0.0, min(up_all) - 0.05)
    up = Axis(bottom, min(1.0, max(up_all) + 0.05), height - BOTTOM, TOP)
    parts = [_frame(up, width), _x_title(across_title, width, height)]
    for tick in across.ticks:
        x = across.at(tick)
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP:g}V{height - BOTTOM:g}"/>')
        below = height - BOTTOM + 15
        parts.append(f'<text class="middle" x="{x:.1f}" y="{below:g}">{percent(tick, 0)}</text>')
    best = sorted((one.across[0], one.up[0]) for one in points if one.on_front)
    if len(best) > 1:
        path = "L".join(f"{across.at(a):.1f} {up.at(b):.1f}" for a, b in best)
        parts.append(f'<path class="front" d="M{path}"/>')
    for one in points:
        parts += _point(one, across, up)
    return drawing(parts, width, height, title)


def _point(one: Point, across: Axis, up: Axis) -> list[str]:
    x, y = across.at(one.across[0]), up.at(one.up[0])
    parts = []
    name = f'class="error {style_class(one.style)}"'
    if one.across[1] is not None and one.across[2] is not None:
        left, right = (across.at(_within(v, across)) for v in one.across[1:] if v is not None)
        parts.append(f'<path {name} d="M{left:.1f} {y:.1f}H{right:.1f}"/>')
    if one.up[1] is not None and one.up[2] is not None:
        low, high = (up.at(_within(v, up)) for v in one.up[1:] if v is not None)
        parts.append(f'<path {name} d="M{x:.1f} {low:.1f}V{high:.1f}"/>')
    told = f"{one.name}: accuracy {percent(one.up[0])}, disparity {percent(one.across[0])}"
    return [*parts, marker(one.style, x, y, told, radius=5.0)]


def _within(value: float, axis: Axis) -> float:
    return min(max(value, axis.low), axis.high)


def fall_bar(best: float, last: float, style: int, title: str) -> str:
    """Draw the change of a group from its best to its last accuracy, on a line from 0 to 100 %."""
    scale = Axis(0.0, 1.0, 6.0, 154.0)
    start, end = scale.at(best), scale.at(last)
    name = style_class(style)
    return drawing(
        [
            '<path class="grid" d="M6 9H154"/>',
            f'<path class="fall {name}" d="M{start:.1f} 9H{end:.1f}"/>',
            f'<circle class="then {name}" cx="{start:.1f}" cy="9" r="4"/>',
            f'<circle class="mark {name}" cx="{end:.1f}" cy="9" r="5"/>',
        ],
        160,
        18,
        title,
    )


def interval_bar(value: float, low: float, high: float, style: int, title: str) -> str:
    """Draw a value within its interval, on a line from 0 to 100 %."""
    scale = Axis(0.0, 1.0, 6.0, 154.0)
    name = style_class(style)
    return drawing(
        [
            '<path class="grid" d="M6 9H154"/>',
            f'<path class="fall {name}" d="M{scale.at(low):.1f} 9H{scale.at(high):.1f}"/>',
            f'<circle class="mark {name}" cx="{scale.at(value):.1f}" cy="9" r="5"/>',
        ],
        160,
        18,
        title,
    )
