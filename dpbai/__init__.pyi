from . import (
    audits,
    beyond,
    exact,
    field,
    instance,
    lemmas,
    lower,
    noise,
    rewards,
    scaling,
    schedule,
    tails,
    upper,
)
from .audits import exact_audit, monte_carlo_audit, pull_audit
from .beyond import (
    DPDesign,
    DPHalving,
    private_design,
    smallest_budget,
    smallest_epsilon,
    upper_bound,
)
from .certificate import certificate, certify
from .exact import error_bounds, exact_error, exact_success
from .field.session import (
    NumpyNoise,
    OpenDPNoise,
    ReleaseWarning,
    Session,
    SessionConflictError,
    SessionError,
)
from .g_optimal import g_optimal_design
from .hardness import hardness
from .instance import Instance, hard_instances, synthetic, two_armed
from .max_det import max_det
from .noise import Gaussian, Laplace, NoNoise
from .phase import Phase, Policy
from .policies import DPBAI, DPOD, Baseline, DPBAIGauss, ODLinBAI
from .rewards import Bernoulli, Beta, Empirical, Uniform
from .schedule import Schedule
from .simulate import simulate
from .study import study
from .upper import explicit_upper_bound, gauss_upper_bound

__version__: str

__all__ = [
    "DPBAI",
    "DPOD",
    "Baseline",
    "Bernoulli",
    "Beta",
    "DPBAIGauss",
    "DPDesign",
    "DPHalving",
    "Empirical",
    "Gaussian",
    "Instance",
    "Laplace",
    "NoNoise",
    "NumpyNoise",
    "ODLinBAI",
    "OpenDPNoise",
    "Phase",
    "Policy",
    "ReleaseWarning",
    "Schedule",
    "Session",
    "SessionConflictError",
    "SessionError",
    "Uniform",
    "audits",
    "beyond",
    "certificate",
    "certify",
    "error_bounds",
    "exact",
    "exact_audit",
    "exact_error",
    "exact_success",
    "explicit_upper_bound",
    "field",
    "g_optimal_design",
    "gauss_upper_bound",
    "hard_instances",
    "hardness",
    "instance",
    "lemmas",
    "lower",
    "max_det",
    "monte_carlo_audit",
    "noise",
    "private_design",
    "pull_audit",
    "rewards",
    "scaling",
    "schedule",
    "simulate",
    "smallest_budget",
    "smallest_epsilon",
    "study",
    "synthetic",
    "tails",
    "two_armed",
    "upper",
    "upper_bound",
]
