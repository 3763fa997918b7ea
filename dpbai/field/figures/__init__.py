"""Figures of studies and sessions, and a canvas for other figures in the same style.

Each function returns a closed figure, so that a notebook shows it once. Series differ in marker or
line style as well as in colour. Backgrounds are transparent, and the same data give the same bytes.
Figures that only the book shows are in `book/drawings/`.
"""

from importlib.util import find_spec

if not find_spec("matplotlib"):
    raise ImportError("figures need Matplotlib: pip install 'dpbai[figures]'")

from dpbai.field.figures.canvas import Picture, canvas, name_lines, panels_in_a_grid
from dpbai.field.figures.own_arms import recommended_counts, rows_of_arms, run_trace
from dpbai.field.figures.success import least_budgets, success_curves

__all__ = [
    "Picture",
    "canvas",
    "least_budgets",
    "name_lines",
    "panels_in_a_grid",
    "recommended_counts",
    "rows_of_arms",
    "run_trace",
    "success_curves",
]
