"""Exact probabilities of what `simulate` estimates, from a plan and the laws of rewards."""

from dpbai.exact.brackets import ErrorBounds, error_bounds
from dpbai.exact.error import exact_error, exact_success
from dpbai.exact.terms import NotExactError

__all__ = ["ErrorBounds", "NotExactError", "error_bounds", "exact_error", "exact_success"]
