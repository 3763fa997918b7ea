"""Pictures and explorers that the chapters share; nothing here computes what it draws.

Each function draws one figure and returns it, closed, so that a notebook shows it once. Series
differ in colour, marker or line style, so that they can be told apart without colour; pictures have
no ground of their own; nothing in them depends on the moment or the machine.
"""

from importlib.util import find_spec

if not (find_spec("matplotlib") and find_spec("ipywidgets")):
    raise ImportError("figures need Matplotlib and ipywidgets: pip install 'dpbai[figures]'")

from dpbai.figures.canvas import Picture, canvas, name_lines, panels_in_a_grid
from dpbai.figures.design import divided_pulls, information, leads, success_bars
from dpbai.figures.elimination import arms_in_the_plane, design_errors, funnel, sizes
from dpbai.figures.frames import Explorer, Frame, Live, explorer, live
from dpbai.figures.own_arms import rows_of_arms, run_trace
from dpbai.figures.privacy import (
    laplace_pair,
    lead_losses,
    paired_laws,
    privacy_losses,
    rival_errors,
    true_delta,
    winners,
)
from dpbai.figures.success import by_dimension, draws, exact_over_sampled, misfits, success_curves
from dpbai.figures.tables import neighbouring_tables
from dpbai.figures.theory import between_bounds, bound_losses, bounds, exponents, hardness_terms
from dpbai.figures.two_arms import decay, losses_by_angle, ratio_frame, ratio_panels

__all__ = [
    "Explorer",
    "Frame",
    "Live",
    "Picture",
    "arms_in_the_plane",
    "between_bounds",
    "bound_losses",
    "bounds",
    "by_dimension",
    "canvas",
    "decay",
    "design_errors",
    "divided_pulls",
    "draws",
    "exact_over_sampled",
    "explorer",
    "exponents",
    "funnel",
    "hardness_terms",
    "information",
    "laplace_pair",
    "lead_losses",
    "leads",
    "live",
    "losses_by_angle",
    "misfits",
    "name_lines",
    "neighbouring_tables",
    "paired_laws",
    "panels_in_a_grid",
    "privacy_losses",
    "ratio_frame",
    "ratio_panels",
    "rival_errors",
    "rows_of_arms",
    "run_trace",
    "sizes",
    "success_bars",
    "success_curves",
    "true_delta",
    "winners",
]
