"""Shared style of figures: colours, markers, curves with error bars, files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from maxendnet.utils.atomic_write import write_whole

# colour-blind safe palette of Okabe and Ito; markers and dashes differ as well
BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE, BLACK, GREY = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#000000", "#8a8a8a",
)  # fmt: skip
STYLES: dict[str, tuple[str, str, str]] = {
    "LapMEDN": (BLUE, "o", "-"),
    "M3N": (VERMILION, "s", "--"),
    "L1-M3N": (GREEN, "^", "-."),
    "CRF": (BLACK, "x", ":"),
    "L2-CRF": (ORANGE, "D", "--"),
    "L1-CRF": (PURPLE, "v", "-."),
}
CYCLE = [*STYLES.values(), (SKY, "P", ":"), (GREY, "*", "-")]

PARAMETERS: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.fonttype": "path",  # independent of installed fonts
    "svg.hashsalt": "maxendnet",
    "figure.facecolor": "white",
}


def style(name: str, position: int = 0) -> dict[str, Any]:
    """Return the line style of a system, or of the curve at a position."""
    colour, marker, dash = STYLES.get(name, CYCLE[position % len(CYCLE)])
    return {"color": colour, "marker": marker, "linestyle": dash, "markersize": 5, "linewidth": 1.5}


def save(path: Path, size: tuple[float, float], draw: Callable[[Any], None], note: str = "") -> None:
    """Draw a figure and write it as PNG and SVG.

    Raises
    ------
    ImportError
        Matplotlib is not installed.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(PARAMETERS):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        if note:
            room = 0.25 / size[1]
            layout: Any = figure.get_layout_engine()
            layout.set(rect=(0, room, 1, 1 - room))
            figure.text(0.99, 0.05 / size[1], note, ha="right", va="bottom", color=VERMILION, fontsize=9, weight="bold")
        for kind, options in (("png", {"dpi": 110}), ("svg", {"metadata": {"Date": None}})):
            content = BytesIO()
            figure.savefig(content, format=kind, **options)
            target = path.with_suffix(f".{kind}")
            write_whole(target, _writer(content.getvalue()))


def _writer(content: bytes) -> Callable[[Any], object]:
    return lambda file: file.write(content)


def mean_and_interval(groups: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and half width of the 95 % interval of each group; 0 for fewer than four values."""
    from scipy import stats

    means = np.array([np.mean(g) if len(g) else np.nan for g in groups])
    halves = np.array([
        stats.t.ppf(0.975, len(g) - 1) * np.std(g, ddof=1) / np.sqrt(len(g)) if len(g) > 3 else 0.0 for g in groups
    ])  # fmt: skip
    return means, halves


def curve(axis: Any, x: Any, groups: Sequence[np.ndarray], name: str, position: int = 0, shift: float = 0.0) -> None:
    """Plot means with intervals; ``shift`` separates the error bars of several curves."""
    means, halves = mean_and_interval(groups)
    bar_style = style(name, position) | {"label": name, "capsize": 2, "elinewidth": 0.9}
    axis.errorbar(np.asarray(x, float) + shift, means, halves, **bar_style)


def legend(figure: Any, axis: Any, columns: int = 6) -> None:
    """One legend for all panels, above them."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=columns)
