"""For two arms no private rule is better than one Laplace variable on the difference of sums."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import optimize, sparse, stats

import dpbai


def least_error(pulls: int, epsilon: float, means: tuple[float, float]) -> float:
    """Return the least error of all epsilon-private rules, averaged with that of swapped means.

    A rule is the probability to choose the first arm for each pair of sums: a linear program.
    """
    sums = np.arange(pulls + 1)
    first, second = (stats.binom.pmf(sums, pulls, mean) for mean in means)
    law, swapped = np.multiply.outer(first, second), np.multiply.outer(second, first)
    places = np.arange((pulls + 1) ** 2).reshape(pulls + 1, -1)
    near = [pair for grid in (places, places.T) for row in grid for pair in pairwise(row)]
    rows, least = [], []
    factor = np.exp(epsilon)
    for here, there in [*near, *[pair[::-1] for pair in near]]:
        # p(x) <= e^epsilon p(x'), and the same for 1 - p
        for sign, limit in ((1, 0.0), (-1, factor - 1)):
            rows.append({here: sign, there: -sign * factor})
            least.append(limit)
    matrix = sparse.lil_array((len(rows), places.size))
    for k, row in enumerate(rows):
        for place, value in row.items():
            matrix[k, place] = value
    # On the first law the second arm is wrong, on the swapped one the first.
    cost = (swapped - law).ravel() / 2
    found = optimize.linprog(cost, matrix.tocsr(), least, bounds=(0, 1), method="highs")
    assert found.success
    return 0.5 + found.fun


@pytest.mark.parametrize(
    ("pulls", "epsilon", "means", "error"),
    [
        (6, 0.5, (0.6, 0.5), 0.41557822785468745),
        (10, 1.0, (0.6, 0.5), 0.348037683701212),
        (8, 0.2, (0.9, 0.2), 0.170102647138178),
    ],
)
def test_dp_design_errs_as_rarely_as_any_private_rule(pulls, epsilon, means, error):
    instance = dpbai.Instance(np.eye(2), means, rewards=dpbai.Bernoulli)
    policy = dpbai.DPDesign(np.eye(2), budget=2 * pulls, epsilon=epsilon)
    exact = dpbai.exact_error(policy, instance)
    assert exact == pytest.approx(error, rel=1e-7)
    assert least_error(pulls, epsilon, means) == pytest.approx(exact, rel=1e-7)
    other = dpbai.DPBAI(np.eye(2), budget=2 * pulls, epsilon=epsilon)
    assert dpbai.exact_error(other, instance) > exact * 1.05
