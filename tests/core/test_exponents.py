"""Exponents of the error: of two arms, of fixed shares, and for a small epsilon."""

import math

import numpy as np
import pytest
from scipy import optimize
from scipy.special import expit, logit

import dpbai


def _entropy(y, mean):
    parts = (y, mean), (1 - y, 1 - mean)
    return sum(p * math.log(p / q) for p, q in parts if p > 0)


def _price(x, mean, epsilon):
    """The minimum over y of kl(y, mean) + epsilon |x - y|: chance, then changed rewards."""
    low, high = (float(expit(logit(mean) + sign * epsilon)) for sign in (-1, 1))
    y = min(max(x, low), high)
    return _entropy(y, mean) + epsilon * abs(x - y)


def _tilt(best, rival, epsilon):
    """The largest of -log E e^(-tX) - log E e^(tY) over 0 <= t <= epsilon."""

    def value(t):
        return math.log1p(best * math.expm1(-t)) + math.log1p(rival * math.expm1(t))

    found = optimize.minimize_scalar(
        value, bounds=(0, epsilon), method="bounded", options={"xatol": 1e-12}
    )
    return -min(found.fun, value(epsilon))


@pytest.mark.parametrize("x", [0.05, 0.3, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_a_price_is_the_least_over_how_far_chance_goes(x, epsilon):
    grid = np.linspace(0, 1, 100_001)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.nan_to_num(grid * np.log(grid / 0.4))
        entropy += np.nan_to_num((1 - grid) * np.log((1 - grid) / 0.6))
    least = (entropy + epsilon * np.abs(x - grid)).min()
    assert _price(x, 0.4, epsilon) == pytest.approx(least, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("means", [(0.7, 0.4), (0.55, 0.5), (0.98, 0.9)])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 5.0])
def test_two_arms_err_with_the_exponent_of_the_capped_tilt_which_is_that_of_fixed_shares(
    means, epsilon
):
    """With equal pulls, the least costly alternative has two equal means, between the given two."""
    exponent = _tilt(*means, epsilon)
    found = optimize.minimize_scalar(
        lambda x: sum(_price(x, mean, epsilon) for mean in means),
        bounds=sorted(means),
        method="bounded",
        options={"xatol": 1e-12},
    )
    assert found.fun == pytest.approx(exponent, rel=1e-6)
    coins, logs = dpbai.Instance(np.eye(2), means, rewards=dpbai.Bernoulli), []
    pulls = [math.ceil(k / exponent) for k in (100, 200)]
    for n in pulls:
        policy = dpbai.DPBAI(np.eye(2), budget=2 * n + 2, epsilon=epsilon)
        assert policy.phase(1, (0, 1)).pulls == (n, n)
        logs.append(math.log(dpbai.exact_error(policy, coins)))
    slope = (logs[0] - logs[1]) / (pulls[1] - pulls[0])
    assert slope == pytest.approx(exponent, rel=0.02)  # up to log(n)/n


def _gauge(contrast, features, shares):
    """The minimum of max_j abs(s_j) subject to sum_j pi_j s_j a_j = c."""
    arms, dimension = features.shape
    rows = np.column_stack([features.T * shares, np.zeros(dimension)])
    below = np.vstack([np.c_[sign * np.eye(arms), -np.ones(arms)] for sign in (1, -1)])
    found = optimize.linprog(
        np.eye(arms + 1)[arms], below, np.zeros(2 * arms), rows, contrast, bounds=(None, None)
    )
    return found.fun


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("epsilon", [0.01, 0.1])
def test_for_a_small_epsilon_the_exponent_of_fixed_shares_is_that_of_the_gauge(seed, epsilon):
    """Within epsilon^2 / 8: E by minimising over one direction, for arms on a line."""
    rng = np.random.default_rng(seed)
    features = np.column_stack([np.ones(6), np.linspace(-1, 1, 6)])
    shares, means = rng.dirichlet(np.full(6, 2.0)), 0.5 + 0.05 * features[:, 1]
    exponents, limits = [], []
    for contrast, gap in zip(features[-1] - features[:-1], means[-1] - means[:-1], strict=True):

        def price(level, slope=gap / contrast[1]):
            other = means - level - slope * features[:, 1]
            prices = [_price(x, mean, epsilon) for x, mean in zip(other, means, strict=True)]
            return float(shares @ prices)

        found = optimize.minimize_scalar(
            price, bounds=(-0.3, 0.3), method="bounded", options={"xatol": 1e-10}
        )
        exponents.append(found.fun)
        limits.append(epsilon * gap / _gauge(contrast, features, shares))
    low, high = min(limits) - epsilon**2 / 8, min(limits) * (1 + 1e-6)
    assert low <= min(exponents) <= high


def _chances_to_win(estimates, scale):
    """The probability of each arm to have the largest estimate plus exponential noise."""
    noise = (np.arange(4000) + 0.5) / 100 * scale  # midpoints of cells, up to 40 scales
    weights = np.exp(-noise / scale) * math.sinh(1 / 200) * 2
    chances = []
    for arm, estimate in enumerate(estimates):
        ahead = estimate + noise[:, None] - np.delete(estimates, arm)
        others = -np.expm1(-np.maximum(ahead, 0) / scale)
        chances.append(weights @ others.prod(axis=1))
    return np.array(chances)


def test_a_winner_alone_loses_epsilon_at_most_if_the_noise_fits_the_widest_movement():
    """Estimates of shared sums, noise of scale rho / epsilon; less noise would lose more."""
    rng, worst, epsilon = np.random.default_rng(2), {1.0: 0.0, 0.8: 0.0}, 0.7
    for _ in range(60):
        weights = rng.normal(size=(rng.integers(2, 5), rng.integers(1, 4)))
        widest = np.ptp(weights, axis=0).max()
        sums = rng.normal(size=weights.shape[1]) * rng.choice([0.3, 3.0])
        moved = sums + np.eye(len(sums))[np.ptp(weights, axis=0).argmax()]
        for share in worst:
            laws = [_chances_to_win(weights @ s, share * widest / epsilon) for s in (sums, moved)]
            sure = np.min(laws, axis=0) > 1e-6
            loss = np.abs(np.log(laws[0][sure] / laws[1][sure])).max()
            worst[share] = max(worst[share], loss / epsilon)
    assert worst[1.0] <= 1.001
    assert worst[0.8] > 1.1
