"""What the book adds to the paper: a policy, designs for it, the least budget, checks of linearity.

`DPDesign` pulls by a design for private estimates, `private_design`, and plans its phases by a
rehearsal on made-up arms. `smallest_budget` finds the least budget for a given error; `gaps` makes
instances in which the best arm leads by a given gap; `linearity` compares two estimates of the same
means. Nothing here is in the paper, or knows of real rewards.
"""

from dpbai.beyond.dp_design import DPDesign
from dpbai.beyond.linearity import Misfit, holdout, limits, misfit
from dpbai.beyond.planning import SmallestBudget, smallest_budget
from dpbai.beyond.private import PrivateDesign, private_design

__all__ = [
    "DPDesign",
    "Misfit",
    "PrivateDesign",
    "SmallestBudget",
    "holdout",
    "limits",
    "misfit",
    "private_design",
    "smallest_budget",
]
