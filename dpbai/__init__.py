"""Companion to "Fixed-Budget Differentially Private Best Arm Identification".

A policy plans phases, engines execute the plans: see `Phase`, `simulate` and `study`.
"""

from dpbai.gdesign import Design, g_optimal_design
from dpbai.instance import Instance, synthetic, two_armed
from dpbai.maxdet import MaxDet, max_det
from dpbai.noise import Gaussian, Laplace, NoNoise
from dpbai.policies import DPBAI, DPOD, Baseline, DPBAIGauss, ODLinBAI, Phase, Policy
from dpbai.rewards import Bernoulli, Beta, Empirical, Uniform
from dpbai.schedule import Schedule
from dpbai.simulate import Simulation, simulate
from dpbai.study import study

__version__ = "0.1.0"

__all__ = [
    "DPBAI",
    "DPOD",
    "Baseline",
    "Bernoulli",
    "Beta",
    "DPBAIGauss",
    "Design",
    "Empirical",
    "Gaussian",
    "Instance",
    "Laplace",
    "MaxDet",
    "NoNoise",
    "ODLinBAI",
    "Phase",
    "Policy",
    "Schedule",
    "Simulation",
    "Uniform",
    "g_optimal_design",
    "max_det",
    "simulate",
    "study",
    "synthetic",
    "two_armed",
]
