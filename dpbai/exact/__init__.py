"""Exact probabilities: what Monte Carlo estimates, computed without sampling.

What is here reads one plan and the laws of rewards and noise. Nothing here draws a random number,
or knows how a policy made its plan.
"""

from dpbai.exact.brackets import ErrorBounds, error_bounds
from dpbai.exact.error import exact_error, exact_success
from dpbai.exact.terms import NotExactError

__all__ = ["ErrorBounds", "NotExactError", "error_bounds", "exact_error", "exact_success"]
