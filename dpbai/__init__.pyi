from . import (
    designs,
    exact,
    instance,
    linearity,
    noise,
    planning,
    policies,
    privacy,
    rewards,
    session,
    theory,
)
from .designs.g_optimal import Design, g_optimal_design
from .designs.max_det import MaxDet, max_det
from .designs.private import PrivateDesign, private_design
from .exact import ErrorBounds, error_bounds, exact_error, exact_success
from .instance import Instance, hard_instances, synthetic, two_armed
from .noise import Gaussian, Laplace, NoNoise
from .planning import SmallestBudget, smallest_budget
from .policies import DPBAI, DPOD, Baseline, DPBAIGauss, DPDesign, ODLinBAI, Phase, Policy
from .policies.schedule import Schedule
from .privacy import certificate, certify, exact_audit, monte_carlo_audit, pull_audit
from .rewards import Bernoulli, Beta, Empirical, Uniform
from .session import NumpyNoise, OpenDPNoise, ReleaseWarning, Session, SessionError
from .simulate import Simulation, simulate
from .study import study
from .theory import explicit_upper_bound, gauss_upper_bound, hardness, upper_bound

__version__: str

__all__ = [
    "DPBAI",
    "DPOD",
    "Baseline",
    "Bernoulli",
    "Beta",
    "DPBAIGauss",
    "DPDesign",
    "Design",
    "Empirical",
    "ErrorBounds",
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
    "PrivateDesign",
    "ReleaseWarning",
    "Schedule",
    "Session",
    "SessionError",
    "Simulation",
    "SmallestBudget",
    "Uniform",
    "certificate",
    "certify",
    "designs",
    "error_bounds",
    "exact",
    "exact_audit",
    "exact_error",
    "exact_success",
    "explicit_upper_bound",
    "g_optimal_design",
    "gauss_upper_bound",
    "hard_instances",
    "hardness",
    "instance",
    "linearity",
    "max_det",
    "monte_carlo_audit",
    "noise",
    "planning",
    "policies",
    "privacy",
    "private_design",
    "pull_audit",
    "rewards",
    "session",
    "simulate",
    "smallest_budget",
    "study",
    "synthetic",
    "theory",
    "two_armed",
    "upper_bound",
]
