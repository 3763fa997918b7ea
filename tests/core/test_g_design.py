"""G-optimal designs: optimal by the equivalence theorem, with small support, for any arms."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from oracles import bad_features

import dpbai
from dpbai import g_optimal
from dpbai.scaling import rank


def variances(vectors, weights):
    """Return a_i' V^-1 a_i, with the pseudo-inverse for arms that do not span."""
    information = vectors.T @ (weights[:, None] * vectors)
    return np.einsum("ij,jk,ik->i", vectors, np.linalg.pinv(information), vectors)


def test_largest_variance_is_the_dimension_every_time():
    """200 random sets; the gap is computed here, not taken from the solver."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        vectors = rng.normal(size=(30, 3))
        design = dpbai.g_optimal_design(vectors)
        assert variances(vectors, design.weights).max() <= 3 * (1 + 1e-6)
        assert design.max_variance == pytest.approx(variances(vectors, design.weights).max())
        assert design.weights.sum() == pytest.approx(1, abs=1e-14)
        assert (design.weights >= 0).all()
        assert design.support.tolist() == np.flatnonzero(design.weights).tolist()
        assert len(design.support) <= 6


@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 10])
def test_a_basis_is_pulled_equally(dimension):
    """K = d gives weights 1/d exactly, and so does a basis that is the optimal support."""
    rng = np.random.default_rng(dimension)
    basis = rng.normal(size=(dimension, dimension))
    assert (dpbai.g_optimal_design(basis).weights == 1 / dimension).all()
    inside = rng.uniform(-1, 1, size=(20, dimension)) / dimension @ basis
    design = dpbai.g_optimal_design(np.vstack([inside, basis]))
    assert (design.weights[:20] == 0).all()
    assert (design.weights[20:] == 1 / dimension).all()


def test_design_has_the_determinant_of_multiplicative_updates():
    """Another method (Titterington, 1976) approaches the same det V from below."""
    rng = np.random.default_rng(1)
    for _ in range(3):
        vectors = rng.uniform(size=(15, 4))
        weights = np.full(15, 1 / 15)
        for _ in range(1000):
            weights *= variances(vectors, weights) / 4
        found = dpbai.g_optimal_design(vectors).weights
        other, best = (
            np.linalg.slogdet(vectors.T @ (w[:, None] * vectors))[1] for w in (weights, found)
        )
        assert other <= best + 1e-7
        assert best == pytest.approx(other, abs=4e-3)


@settings(max_examples=60)
@given(vectors=bad_features())
def test_any_arms_have_an_optimal_design_of_small_support(vectors):
    """Deficient, repeated, zero and badly scaled arms; variances in well-scaled coordinates."""
    design = dpbai.g_optimal_design(vectors)
    r = rank(vectors)
    assert len(design.support) <= r * (r + 1) // 2
    assert design.weights.sum() == pytest.approx(1 if r else 0)
    if r:
        coordinates = dpbai.max_det(vectors, max_subsets=0).coordinates
        assert variances(coordinates, design.weights).max() <= r * (1 + 1e-6)


def exact_largest_variance(vectors, weights):
    """Return max a' V^-1 a in rational arithmetic, by elimination on V augmented with all a."""
    rows = [[Fraction(entry) for entry in row] for row in vectors.tolist()]
    shares = [Fraction(weight) for weight in weights.tolist()]
    r = vectors.shape[1]
    table = [
        [sum(w * a[i] * a[j] for w, a in zip(shares, rows, strict=True) if w) for j in range(r)]
        + [a[i] for a in rows]
        for i in range(r)
    ]
    for i in range(r):
        pivot = table[i][i]
        table[i] = [entry / pivot for entry in table[i]]
        for k in set(range(r)) - {i}:
            factor = table[k][i]
            table[k] = [x - factor * y for x, y in zip(table[k], table[i], strict=True)]
    return max(sum(a[i] * table[i][r + number] for i in range(r)) for number, a in enumerate(rows))


@pytest.mark.parametrize("distance", [1e-4, 1e-8, 1e-10, 1e-12])
def test_nearly_collinear_columns_keep_the_claimed_gap(distance):
    rng = np.random.default_rng(5)
    for _ in range(2):
        vectors = rng.normal(size=(12, 3))
        vectors[:, 2] = vectors[:, 0] + distance * vectors[:, 2]
        design = dpbai.g_optimal_design(vectors)
        true = exact_largest_variance(vectors, design.weights) / sum(map(Fraction, design.weights))
        assert 3 - 1e-12 <= true <= 3 * (1 + 1e-8) + 1e-12
        assert design.max_variance == pytest.approx(float(true), abs=1e-11)


def test_no_design_claims_less_variance_than_the_rank():
    rng = np.random.default_rng(6)
    for dimension in (1, 2, 3, 5):
        for arms in (dimension, 2 * dimension):
            vectors = rng.normal(size=(arms, dimension))
            assert dpbai.g_optimal_design(vectors).max_variance >= dimension
    assert dpbai.g_optimal_design(np.eye(2)).max_variance == 2


def test_design_does_not_depend_on_the_coordinates():
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(12, 3))
    for change in (np.diag([1e8, 1, 1e-8]), rng.normal(size=(3, 3)), np.eye(3)[:, ::-1]):
        np.testing.assert_allclose(
            dpbai.g_optimal_design(vectors @ change).weights,
            dpbai.g_optimal_design(vectors).weights,
            atol=1e-6,
        )


def test_support_of_a_regular_polygon_is_reduced_without_losing_optimality():
    """Equal weights on 60 directions are optimal, but at most three arms are needed."""
    angles = np.arange(60) * np.pi / 60
    vectors = np.c_[np.cos(angles), np.sin(angles)]
    design = dpbai.g_optimal_design(vectors)
    assert len(design.support) <= 3
    information = vectors.T @ (design.weights[:, None] * vectors)
    np.testing.assert_allclose(information, np.eye(2) / 2, atol=1e-8)


def test_in_one_dimension_the_longest_arm_is_enough():
    design = dpbai.g_optimal_design([[1], [-5], [2], [5]])
    assert len(design.support) == 1
    assert design.support[0] in (1, 3)
    assert design.max_variance == 1


def test_arms_that_are_all_zero_need_no_pulls():
    design = dpbai.g_optimal_design(np.zeros((3, 2)))
    assert (design.weights == 0).all()
    assert (design.support.size, design.max_variance) == (0, 0)


@pytest.mark.parametrize("budget", [300, 301, 1000])
def test_tiny_weights_are_not_rounded_up_to_pulls(budget):
    """K = 200, d = 2; a pull for each arm with a weight of 1e-9 would exceed the budget."""
    for seed in range(20):
        vectors = np.random.default_rng(seed).normal(size=(200, 2))
        phase = dpbai.ODLinBAI(vectors, budget=budget).phase(1, range(200))
        assert len(phase.pulled) <= 3
        assert budget - 6 <= phase.cost <= budget


def test_tolerances_down_to_the_least_allowed_are_reached():
    rng = np.random.default_rng(3)
    for dimension in (2, 3, 5, 8):
        vectors = rng.normal(size=(40, dimension))
        design = dpbai.g_optimal_design(vectors, tolerance=1e-12)
        assert design.max_variance <= dimension * (1 + 1e-11)


def test_a_search_that_gets_nowhere_is_an_error(monkeypatch):
    monkeypatch.setattr("dpbai.g_optimal._MAX_STEPS", 3)
    with pytest.raises(RuntimeError, match="no design within tolerance 1e-08"):
        dpbai.g_optimal_design(np.random.default_rng(3).normal(size=(30, 3)))


def test_looser_tolerance_is_kept():
    vectors = np.random.default_rng(4).normal(size=(50, 5))
    loose = dpbai.g_optimal_design(vectors, tolerance=0.5)
    assert 5 * (1 + 1e-7) < loose.max_variance <= 7.5
    assert math.isclose(loose.weights.sum(), 1)


@pytest.mark.parametrize("m", [300, 3 * 10**6])
@pytest.mark.parametrize(
    "vectors", [[[1, 0], [0, 1], [1, 1]], [[2, 0], [-1, 3**0.5], [-1, -(3**0.5)]]]
)
def test_thirds_of_the_pulls_are_not_rounded_up(vectors, m):
    """By symmetry each weight is 1/3; an error of 1e-8 would add a pull, by ceil(pi m)."""
    weights = dpbai.g_optimal_design(vectors).weights
    np.testing.assert_allclose(weights, 1 / 3, rtol=1e-14)
    policy = dpbai.ODLinBAI(np.array(vectors), budget=m + 3)
    assert policy.pulls_per_phase == m
    assert policy.phase(1, range(3)).pulls == (m // 3,) * 3


@pytest.mark.parametrize("dimension", [2, 3, 5])
def test_newtons_step_squares_the_distance_to_the_optimum(dimension):
    """A step from weights with errors of 1e-4 on the support leaves almost no error."""
    rng = np.random.default_rng(dimension)
    vectors = rng.normal(size=(40, dimension))
    best = dpbai.g_optimal_design(vectors, tolerance=1e-12).weights
    some = np.flatnonzero(best)
    near = best.copy()
    near[some] *= 1 + 1e-4 * rng.uniform(-1, 1, some.size)
    near /= near.sum()
    before, after = (
        np.abs(variances(vectors, weights)[some] - dimension).max()
        for weights in (near, g_optimal._newton(vectors, near))
    )
    assert before > 1e-5
    assert after < 1e-2 * before


@pytest.mark.parametrize("dimension", [2, 3, 4])
def test_dropping_arms_leaves_the_information_of_an_optimal_design_alone(dimension):
    """Equal shares on many copies of the axes are optimal, and more arms than are needed."""
    rows = [*np.eye(dimension), *-np.eye(dimension)]
    vectors = np.array(rows * dimension * 2)
    weights = np.full(len(vectors), 1 / len(vectors))
    found = g_optimal._reduce_support(vectors, weights)
    assert np.count_nonzero(found) <= dimension * (dimension + 1) // 2
    information = (vectors.T * found) @ vectors
    np.testing.assert_allclose(information, np.eye(dimension) / dimension, atol=1e-12)
