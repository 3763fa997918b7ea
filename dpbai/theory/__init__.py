"""What the paper proves of its policies, computed (Sec. 4 and its appendices).

Hardness, the upper bound and its lemmas, the regimes of the Gaussian variant, the lower bound and
its hard instances, early stopping on tables of rewards. Each statement is a function; where the
paper says "for sufficiently large T", so is the T. An argument outside the range that is stated for
it is a `ValueError`, one of a wrong kind a `TypeError`.
"""

from dpbai.theory.early_stopping import EarlyStopping, WinStay, log_ratio
from dpbai.theory.hardness import Hardness, hardness
from dpbai.theory.lemmas import (
    Elimination,
    eliminations,
    first_stage_elimination,
    second_stage_elimination,
    suboptimal_arm,
    suboptimal_arm_gauss,
)
from dpbai.theory.lower import (
    CaseThresholds,
    case_thresholds,
    change_of_measure,
    lower_bound,
    lower_bound_bai,
    lower_bound_valid_from,
    sharp_change_of_measure,
)
from dpbai.theory.regimes import Regime, regime
from dpbai.theory.tails import SubExponential, hoeffding, hoeffding_two_sided, laplace_sum
from dpbai.theory.upper import (
    ExplicitBound,
    Step,
    explicit_upper_bound,
    gauss_upper_bound,
    upper_bound,
)

__all__ = [
    "CaseThresholds",
    "EarlyStopping",
    "Elimination",
    "ExplicitBound",
    "Hardness",
    "Regime",
    "Step",
    "SubExponential",
    "WinStay",
    "case_thresholds",
    "change_of_measure",
    "eliminations",
    "explicit_upper_bound",
    "first_stage_elimination",
    "gauss_upper_bound",
    "hardness",
    "hoeffding",
    "hoeffding_two_sided",
    "laplace_sum",
    "log_ratio",
    "lower_bound",
    "lower_bound_bai",
    "lower_bound_valid_from",
    "regime",
    "second_stage_elimination",
    "sharp_change_of_measure",
    "suboptimal_arm",
    "suboptimal_arm_gauss",
    "upper_bound",
]
