"""The table of 30 digits that `tools/reference_table.py` made, and the library's value of a row."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

from plans import laws, one_phase

import dpbai
from dpbai.noise import gaussian_log_delta, gaussian_sigma

ROWS = json.loads((Path(__file__).parents[1] / "reference.json").read_text(encoding="utf-8"))
NOISES = {"laplace": dpbai.Laplace, "gaussian": dpbai.Gaussian}
LAWS = {"bernoulli": dpbai.Bernoulli, "uniform": dpbai.Uniform}

# The first arm's estimate is 0.95 x + 0.96 y, the others' are x and y: it wins between two rays.
WEDGE = ((0.95, 0.96), (1.0, 0.0), (0.0, 1.0))


def rewards(given: list[list]) -> list[dpbai.rewards.RewardLaw]:
    return [LAWS[kind](mean) for kind, mean in given]


def one_arm(law: list, pulls: int, epsilon: float) -> float:
    policy = one_phase((pulls,), dpbai.Laplace(1 / (epsilon * pulls)), [[1.0], [0.0]], arms=2)
    return dpbai.exact_error(policy, laws(*rewards([law]), dpbai.Empirical([0.0])))


def duel(given: list, pulls: int, noise: list) -> float:
    policy = one_phase((pulls, pulls), NOISES[noise[0]](noise[1]))
    return dpbai.exact_error(policy, laws(*rewards(given)))


def wedge(given: list, pulls: int, scale: float) -> float:
    policy = one_phase((pulls, pulls), dpbai.Laplace(scale), WEDGE, pulled=(1, 2))
    best = dpbai.Empirical([2.0])  # it is not pulled, and may have any mean
    return dpbai.exact_error(policy, laws(best, *rewards(given), bounded=False))


def maximum(given: list, pulls: int, scale: float) -> float:
    policy = one_phase((pulls,) * len(given), dpbai.Laplace(scale))
    return dpbai.exact_error(policy, laws(*rewards(given)))


def contrast(means: list, scale: float, rtol: float = 1e-9) -> float:
    policy, instance = contrast_of(means, scale)
    return dpbai.exact_error(policy, instance, rtol=rtol)


def contrast_of(means: list, scale: float):
    """Return a policy that releases the difference of one reward each, and its instance."""
    policy = one_phase((1, 1), dpbai.Laplace(scale), [[1.0], [-1.0]], [[1.0, -1.0]])
    return policy, laws(*map(dpbai.Uniform, means))


def laplace_delta(epsilon: float, shift: float, scale: float) -> float:
    return dpbai.Laplace(scale).delta_at(epsilon, [shift])


CALLS: dict[str, Callable[..., float]] = {
    "one_arm": one_arm,
    "duel": duel,
    "wedge": wedge,
    "maximum": maximum,
    "contrast": contrast,
    "gaussian_log_delta": gaussian_log_delta,
    "gaussian_sigma": lambda epsilon, delta: gaussian_sigma(epsilon, delta, "analytic"),
    "laplace_delta": laplace_delta,
}


def deviation(row: dict) -> float:
    """Return the relative deviation of the library; where the table is below 1e-250, 0 is right."""
    value = CALLS[row["kind"]](*row["arguments"])
    expected = float(row["value"])
    if abs(expected) < 1e-250:
        return 0.0 if value == 0 else math.inf
    return abs(value / expected - 1)


def rows_of(kind: str, law: str | None = None) -> list[dict]:
    """Return the rows of a kind, of a law of rewards where there are several."""
    rows = [row for row in ROWS if row["kind"] == kind]
    return [row for row in rows if law is None or row["arguments"][0][0][0] == law]
