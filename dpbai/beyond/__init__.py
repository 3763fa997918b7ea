"""What the book adds to the paper: policies, designs, bounds, searches, checks of linearity.

`DPHalving` is OD-LinBAI with noise on sums of rewards, with a bound on its error probability.
`DPDesign` divides pulls by a design for private estimates, `private_design`, and chooses its phases
by simulation on synthetic arms. `upper_bound` returns the bound of a policy's own theorem, or else
`path_bound`, which bounds the error probability of any policy along all paths of its plans.
`joint_bound` is Theorem 4.2 with better constants. `smallest_budget` and `smallest_epsilon` find
the budget or epsilon that a given error probability requires. `gaps` constructs means in which the
best arm leads by a given gap. `linearity` compares two estimates of the same means, and finds the
arms that are not the best under any linear means. Nothing here is in the paper, and no function
uses real rewards.
"""

from dpbai.beyond.dp_design import DPDesign
from dpbai.beyond.halving import DPHalving, HalvingBound, halving_bound
from dpbai.beyond.joint import JointBound, joint_bound, overtaken
from dpbai.beyond.linearity import Fit, Holdout, Misfit, cannot_lead, fit, holdout, limits, misfit
from dpbai.beyond.paths import bernstein, path_bound, upper_bound
from dpbai.beyond.planning import (
    SearchError,
    SmallestBudget,
    SmallestEpsilon,
    smallest_budget,
    smallest_epsilon,
)
from dpbai.beyond.private import PrivateDesign, private_design

__all__ = [
    "DPDesign",
    "DPHalving",
    "Fit",
    "HalvingBound",
    "Holdout",
    "JointBound",
    "Misfit",
    "PrivateDesign",
    "SearchError",
    "SmallestBudget",
    "SmallestEpsilon",
    "bernstein",
    "cannot_lead",
    "fit",
    "halving_bound",
    "holdout",
    "joint_bound",
    "limits",
    "misfit",
    "overtaken",
    "path_bound",
    "private_design",
    "smallest_budget",
    "smallest_epsilon",
    "upper_bound",
]
