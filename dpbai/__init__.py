"""Companion to "Fixed-Budget Differentially Private Best Arm Identification".

A policy plans phases, engines execute the plans: see `Phase`, `simulate` and `study`.
"""

from dpbai.designs.g_optimal import Design, g_optimal_design
from dpbai.designs.max_det import MaxDet, max_det
from dpbai.exact import exact_error, exact_success
from dpbai.instance import Instance, hard_instances, synthetic, two_armed
from dpbai.noise import Gaussian, Laplace, NoNoise
from dpbai.planning import SmallestBudget, smallest_budget
from dpbai.policies import DPBAI, DPOD, Baseline, DPBAIGauss, ODLinBAI, Phase, Policy
from dpbai.policies.schedule import Schedule
from dpbai.privacy import certificate, certify, exact_audit, monte_carlo_audit, pull_audit
from dpbai.rewards import Bernoulli, Beta, Empirical, Uniform
from dpbai.session import NumpyNoise, OpenDPNoise, ReleaseWarning, Session, SessionError
from dpbai.simulate import Simulation, simulate
from dpbai.study import study
from dpbai.theory import explicit_upper_bound, gauss_upper_bound, hardness, upper_bound

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
    "NumpyNoise",
    "ODLinBAI",
    "OpenDPNoise",
    "Phase",
    "Policy",
    "ReleaseWarning",
    "Schedule",
    "Session",
    "SessionError",
    "Simulation",
    "SmallestBudget",
    "Uniform",
    "certificate",
    "certify",
    "exact_audit",
    "exact_error",
    "exact_success",
    "explicit_upper_bound",
    "g_optimal_design",
    "gauss_upper_bound",
    "hard_instances",
    "hardness",
    "max_det",
    "monte_carlo_audit",
    "pull_audit",
    "simulate",
    "smallest_budget",
    "study",
    "synthetic",
    "two_armed",
    "upper_bound",
]
