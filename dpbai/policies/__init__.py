"""The policies: each plans, phase by phase, what to pull, what to release, and how many arms stay.

A policy of its own is one class in one file. `phase` says what a plan and a policy are, `schedule`
holds the sizes of the paper's Sec. 3. Nothing here draws a random number, sees a reward, or knows
which engine will execute a plan, or what a plan gives away. An argument outside the range that is
stated for it is a `ValueError`; if a budget is too small, the message names the least one.
"""

from dpbai.policies.dp_bai import DPBAI, Baseline, DPBAIGauss
from dpbai.policies.dp_design import DPDesign
from dpbai.policies.dp_od import DPOD
from dpbai.policies.od_linbai import ODLinBAI
from dpbai.policies.phase import Phase, Policy

__all__ = ["DPBAI", "DPOD", "Baseline", "DPBAIGauss", "DPDesign", "ODLinBAI", "Phase", "Policy"]
