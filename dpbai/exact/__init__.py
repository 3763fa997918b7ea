"""Exact probabilities: what Monte Carlo estimates, computed without sampling.

What is here reads one plan and the laws of rewards and noise. Nothing here draws a random number,
or knows how a policy made its plan.
"""

from dpbai.exact.error import NotExactError, exact_error, exact_success

__all__ = ["NotExactError", "exact_error", "exact_success"]
