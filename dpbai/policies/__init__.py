"""The policies of the paper, each a planner of `Phase`s."""

from dpbai.policies.dp_bai import DPBAI, Baseline, DPBAIGauss
from dpbai.policies.od_linbai import DPOD, ODLinBAI
from dpbai.policies.phase import Phase, Policy

__all__ = ["DPBAI", "DPOD", "Baseline", "DPBAIGauss", "ODLinBAI", "Phase", "Policy"]
