"""Small charts as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 360, 270
LEFT, RIGHT, TOP, BOTTOM = 46, 24, 12, 44
"""Margins around the axes, for the labels."""


class Axis(NamedTuple):
    """An axis from ``low`` to ``high`` with labels at its ticks."""

    label: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    is_log: bool = False

    def place(self, first: float, last: float) -> Callable[[float], float]:
        """Return the function from a value to its place between two coordinates."""
        scale = math.log if self.is_log else float
        low, high = scale(self.low), scale(self.high)
        return lambda value: first + (scale(value) - low) / ((high - low) or 1.0) * (last - first)


class Series(NamedTuple):
    """Points that are joined by a line. Each has a radius, and a text that is shown on hovering."""

    name: str
    css: str
    points: Sequence[tuple[float, float]]
    titles: Sequence[str]
    radii: Sequence[float] = ()


def chart(x: Axis, y: Axis, series: Sequence[Series], diagonal: bool = False) -> str:
    """Return a line chart.

    Examples
    --------
    >>> axis = Axis("value", 0, 1, [(0, "0"), (1, "1")])
    >>> text = chart(axis, axis, [Series("a < b", "test", [(0, 0), (1, 1)], ["none", "all"])])
    >>> text.count("<circle"), "a &lt; b" in text
    (2, True)
    """
    to_x, to_y = x.place(LEFT, WIDTH - RIGHT), y.place(HEIGHT - BOTTOM, TOP)
    parts = [f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">']
    for value, text in x.ticks:
        at = f"{to_x(value):.1f}"
        parts.append(f'<line class="rule" x1="{at}" x2="{at}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{at}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{escape(text)}</text>')
    for value, text in y.ticks:
        at = f"{to_y(value):.1f}"
        parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at}" dy="4" text-anchor="end">{escape(text)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x.label)}</text>')
    parts.append(
        f'<text x="12" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 12 {(TOP + HEIGHT - BOTTOM) / 2})">{escape(y.label)}</text>'
    )
    if diagonal:
        parts.append(
            f'<line class="diagonal" x1="{to_x(x.low):.1f}" y1="{to_y(y.low):.1f}" x2="{to_x(x.high):.1f}" '
            f'y2="{to_y(y.high):.1f}"/>'
        )
    for name, css, points, titles, radii in series:
        places = [(to_x(a), to_y(b)) for a, b in points]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        parts.append(f'<g class="{css}"><polyline points="{line}"/>')
        for k, (a, b) in enumerate(places):
            radius = radii[k] if radii else 4.0
            parts.append(
                f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{radius:.1f}"><title>{escape(titles[k])}</title></circle>'
            )
        if name and places:
            # below the last point if there is no room above it
            a, b = places[-1]
            below = b - 12 < TOP
            parts.append(
                f'<text x="{a:.1f}" y="{b + (22 if below else -9):.1f}" text-anchor="end">{escape(name)}</text>'
            )
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"])
