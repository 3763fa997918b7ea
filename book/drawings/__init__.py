"""Figures and explorers of the chapters. This package draws results and computes none.

Each function draws one figure and returns it, closed, so that a notebook shows it once, as
`dpbai.field.figures` does what readers draw of their own work. A picture takes what it shows as
arguments and uses no name of dpbai that is not public.
"""

from drawings.design import divided_pulls, information, leads, peers, success_along
from drawings.elimination import arms_in_the_plane, design_errors, funnel, sizes
from drawings.frames import Explorer, Live, explorer, live
from drawings.ideas import (
    bars_of,
    chain,
    deciding_plane,
    decision_tree,
    grid_map,
    releases,
    timelines,
    turned_arm,
)
from drawings.privacy import (
    guesses,
    laplace_pair,
    lead_losses,
    paired_laws,
    privacy_losses,
    rival_errors,
    true_delta,
    winners,
)
from drawings.success import (
    by_dimension,
    by_misfit,
    draws,
    exact_over_sampled,
    frontier,
    misfits,
    price,
)
from drawings.tables import neighbouring_tables, paths_of_reads
from drawings.theory import between_bounds, bound_losses, bounds, exponents, hardness_terms
from drawings.two_arms import decay, losses_by_angle, ratio_frame, ratio_panels
