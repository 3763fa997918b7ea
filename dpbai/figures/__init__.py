"""Pictures and explorers that the chapters share.

Each function draws one figure and returns it, closed, so that a notebook shows it once. Series
differ in colour, marker and line style, so that they can be told apart without colour; backgrounds
are opaque and light; nothing in a picture depends on the moment or the machine.
"""

from dpbai.figures.canvas import Picture, canvas, panels_in_a_grid
from dpbai.figures.elimination import arms_in_the_plane, estimates, sizes
from dpbai.figures.frames import Explorer, Frame, explorer
from dpbai.figures.privacy import privacy_losses, true_delta, winners
from dpbai.figures.success import by_dimension, draws, exact_over_sampled, misfits, success_curves
from dpbai.figures.tables import neighbouring_tables
from dpbai.figures.theory import between_bounds, bound_losses, bounds, exponents
from dpbai.figures.two_arms import decay, losses_by_angle, ratio_frame, ratio_panels

__all__ = [
    "Explorer",
    "Frame",
    "Picture",
    "arms_in_the_plane",
    "between_bounds",
    "bound_losses",
    "bounds",
    "by_dimension",
    "canvas",
    "decay",
    "draws",
    "estimates",
    "exact_over_sampled",
    "explorer",
    "exponents",
    "losses_by_angle",
    "misfits",
    "neighbouring_tables",
    "panels_in_a_grid",
    "privacy_losses",
    "ratio_frame",
    "ratio_panels",
    "sizes",
    "success_curves",
    "true_delta",
    "winners",
]
