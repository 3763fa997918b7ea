"""Pictures of what users run: studies, sessions, and a canvas in the same style for anything else.

Each function draws one figure and returns it, closed, so that a notebook shows it once. Series
differ in colour, marker or line style, so that they can be told apart without colour; pictures have
no ground of their own; nothing in them depends on the moment or the machine. Nothing here computes
what it draws, and what only the book's chapters show is drawn beside them, in `book/drawings/`.
"""

from importlib.util import find_spec

if not find_spec("matplotlib"):
    raise ImportError("figures need Matplotlib: pip install 'dpbai[figures]'")

from dpbai.field.figures.canvas import Picture, canvas, name_lines, panels_in_a_grid
from dpbai.field.figures.own_arms import rows_of_arms, run_trace
from dpbai.field.figures.success import success_curves

__all__ = [
    "Picture",
    "canvas",
    "name_lines",
    "panels_in_a_grid",
    "rows_of_arms",
    "run_trace",
    "success_curves",
]
