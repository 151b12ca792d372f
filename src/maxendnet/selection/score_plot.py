"""Plot of the scores of a search."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxendnet.utils.checks import is_number


def plot_scores(results: dict[str, Any], best: int, ax: Any = None) -> Any:
    """Plot the mean score of each point of a grid, with standard deviations.

    The hyper-parameter with the most values is on the horizontal axis. Each combination of the other ones is a line.

    Parameters
    ----------
    results : dict
        ``cv_results_`` of a search.
    best : int
        Index of the best point, which is marked.
    ax : Axes of matplotlib, optional

    Returns
    -------
    Axes
    """
    points, mean, deviation = results["params"], results["mean_test_score"], results["std_test_score"]
    names = dict.fromkeys(name for point in points for name in point)
    numeric = [name for name in names if all(is_number(point.get(name)) for point in points)]
    if not numeric:
        raise ValueError(f"No hyper-parameter of the grid is a number at all points, got {points}; plot cv_results_.")
    across = max(numeric, key=lambda name: len({point[name] for point in points}))
    lines: dict[str, list[int]] = {}
    for number, point in enumerate(points):
        rest = [f"{name}={value:.3g}" if is_number(value) else f"{name}={value}" for name, value in point.items()
                if name != across]  # fmt: skip
        lines.setdefault(", ".join(rest), []).append(number)
    if ax is None:
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("plot() needs matplotlib; install it with: pip install 'maxendnet[plot]'") from error
        ax = Figure(figsize=(6, 4)).add_subplot()
    for label, numbers in lines.items():
        order = sorted(numbers, key=lambda number: points[number][across])
        ax.errorbar([points[number][across] for number in order], mean[order], deviation[order], marker="o",
                    capsize=2, linewidth=1, label=label)  # fmt: skip
    ax.plot([points[best][across]], [mean[best]], "*", color="black", markersize=12, zorder=3)
    if np.min([point[across] for point in points]) > 0:
        ax.set_xscale("log")
    ax.set(xlabel=across, ylabel="mean score over the folds")
    if len(lines) > 1:
        ax.legend(fontsize=8)
    return ax
