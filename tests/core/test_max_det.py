"""Definition 3.1 and eqs. (max-det), (dim-reduce), (construct-others) against brute force."""

import math
from fractions import Fraction
from importlib import import_module
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles import bad_features, best_subsets
from scipy import linalg, special

import dpbai
from dpbai import max_det, scaling
from dpbai.scaling import balancings, rank, span_coordinates

SHAPES = [(30, 2), (20, 3)]


def gaussian_sets(arms, dimension, count=200):
    rng = np.random.default_rng(arms)
    return [rng.normal(size=(arms, dimension)) for _ in range(count)]


def volumes(vectors):
    """Return all volumes of subsets of as many rows as there are columns."""
    subsets = np.array(list(combinations(range(len(vectors)), vectors.shape[1])))
    return subsets, np.abs(np.linalg.det(vectors[subsets]))


@pytest.mark.parametrize(("arms", "dimension"), SHAPES)
def test_exact_search_finds_the_largest_determinant_every_time(arms, dimension):
    for vectors in gaussian_sets(arms, dimension):
        found = dpbai.max_det(vectors)
        subsets, every = volumes(vectors)
        assert found.certified
        assert found.indices.tolist() == subsets[every.argmax()].tolist()
        assert found.log_abs_det == pytest.approx(math.log(every.max()))


@pytest.mark.parametrize(("arms", "dimension"), SHAPES)
def test_one_greedy_pass_would_miss_the_best_subset(arms, dimension):
    """The mutant that the test above detects: the start of the swap search as its result."""
    missed = 0
    for vectors in gaussian_sets(arms, dimension):
        greedy = np.sort(linalg.qr(vectors.T, mode="r", pivoting=True)[1][:dimension])
        missed += greedy.tolist() != dpbai.max_det(vectors).indices.tolist()
    assert missed > 20


@pytest.mark.parametrize(("arms", "dimension"), SHAPES)
def test_swap_search_leaves_no_coordinate_above_one(arms, dimension):
    for vectors in gaussian_sets(arms, dimension):
        swapped, exact = dpbai.max_det(vectors, max_subsets=0), dpbai.max_det(vectors)
        assert not swapped.certified
        assert np.abs(swapped.coordinates).max() <= 1 + 1e-9
        assert swapped.log_abs_det <= exact.log_abs_det + 1e-9


@pytest.mark.parametrize("max_subsets", [10**6, 0])
@given(vectors=bad_features(max_arms=12, max_dimension=4))
def test_coordinates_reproduce_all_arms_and_stay_within_one(vectors, max_subsets):
    """Lemma on Max-Det and eq. (construct-others), for arms of any rank and scale."""
    found = dpbai.max_det(vectors, max_subsets=max_subsets)
    assert found.indices.tolist() == sorted(set(found.indices.tolist()))
    assert found.coordinates.shape == (len(vectors), len(found.indices))
    assert np.abs(found.coordinates).max(initial=0) <= 1 + 1e-9
    np.testing.assert_array_equal(found.coordinates[found.indices], np.eye(len(found.indices)))
    columns = np.abs(vectors).max(axis=0)
    columns[columns == 0] = 1
    rebuilt = found.coordinates @ vectors[found.indices]
    np.testing.assert_allclose(rebuilt / columns, vectors / columns, atol=1e-9)


@given(
    seed=st.integers(0, 2**32),
    arms=st.integers(3, 9),
    row_exponent=st.integers(0, 8),
    column_exponent=st.integers(0, 8),
)
def test_scaling_multiplies_each_determinant_by_its_factors(
    seed, arms, row_exponent, column_exponent
):
    """A determinant is linear in each row and column, also for badly scaled arms."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(arms, 3))
    rows = rng.integers(-row_exponent, row_exponent + 1, arms) * math.log(10)
    columns = rng.integers(-column_exponent, column_exponent + 1, 3) * math.log(10)
    subsets, every = volumes(vectors)
    logs = np.log(every) + rows[subsets].sum(axis=1) + columns.sum()
    found = dpbai.max_det(vectors * np.exp(rows)[:, None] * np.exp(columns))
    assert found.log_abs_det == pytest.approx(logs.max(), abs=1e-6)
    assert logs[(subsets == found.indices).all(axis=1)] == pytest.approx(logs.max(), abs=1e-6)


@given(seed=st.integers(0, 2**32), inner=st.integers(1, 3))
def test_deficient_arms_have_a_collection_of_their_rank(seed, inner):
    """Volumes in the span by Gram determinants, without reducing the dimension."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(9, inner)) @ rng.normal(size=(inner, 5))
    found = dpbai.max_det(vectors)
    largest, best = best_subsets(vectors, inner)
    assert tuple(found.indices) == best[0]
    assert found.log_abs_det == pytest.approx(math.log(largest))


def test_a_tiny_pivot_is_no_dimension():
    """The rank is 2, but a pivot due to rounding would give three arms the largest volume."""
    vectors = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [2, 1, 0]], dtype=float)
    for rotation in (np.eye(3), linalg.qr(np.arange(9.0).reshape(3, 3) ** 2 + np.eye(3))[0]):
        for max_subsets in (10**6, 0):
            found = dpbai.max_det(vectors @ rotation, max_subsets=max_subsets)
            assert found.indices.tolist() == [1, 3]
            assert found.log_abs_det == pytest.approx(math.log(2))


def test_as_many_arms_as_dimensions_are_all_taken():
    vectors = np.array([[2.0, 1.0], [1.0, 3.0]])
    for max_subsets in (10**6, 0):
        found = dpbai.max_det(vectors, max_subsets=max_subsets)
        assert found.indices.tolist() == [0, 1]
        assert found.log_abs_det == pytest.approx(math.log(5))
        np.testing.assert_array_equal(found.coordinates, np.eye(2))


def test_of_duplicated_arms_the_first_is_taken():
    vectors = np.array([[0, 1], [1, 0], [1, 0], [0, 1], [1, 0]])
    found = dpbai.max_det(vectors)
    assert found.indices.tolist() == [0, 1]
    np.testing.assert_allclose(found.coordinates, vectors[:, ::-1][:, [0, 1]])


def test_ties_go_to_the_smallest_indices():
    # All four adjacent pairs of corners of a square have determinant 2.
    assert dpbai.max_det([[1, 1], [-1, 1], [-1, -1], [1, -1]]).indices.tolist() == [0, 1]
    # Equal up to rounding: six directions, with many pairs at 60 or 120 degrees.
    angles = np.arange(6) * np.pi / 3
    assert dpbai.max_det(np.c_[np.cos(angles), np.sin(angles)]).indices.tolist() == [0, 1]


def test_a_zero_arm_has_zero_coordinates():
    found = dpbai.max_det([[0, 0], [3, 0], [0, 2]])
    assert found.indices.tolist() == [1, 2]
    np.testing.assert_array_equal(found.coordinates[0], 0)


@pytest.mark.parametrize("max_subsets", [10**6, 0])
def test_arms_that_are_all_zero_need_no_collection(max_subsets):
    found = dpbai.max_det(np.zeros((3, 2)), max_subsets=max_subsets)
    assert found.indices.size == 0
    assert found.coordinates.shape == (3, 0)
    assert (found.log_abs_det, found.certified) == (0, True)


@pytest.mark.parametrize("factor", [1e8, 1e-8])
@pytest.mark.parametrize("max_subsets", [10**6, 0])
def test_an_arm_of_another_scale_does_not_hide_the_others(factor, max_subsets):
    vectors = np.random.default_rng(1).normal(size=(8, 3))
    vectors[2] *= factor
    found = dpbai.max_det(vectors, max_subsets=max_subsets)
    assert len(found.indices) == 3
    assert (2 in found.indices) == (factor > 1)
    np.testing.assert_allclose(found.coordinates @ vectors[found.indices], vectors, rtol=1e-7)


@pytest.mark.parametrize("dimension", [6, 14])
def test_swap_search_ends_on_ill_conditioned_arms(dimension):
    """Powers of 400 numbers: with dimension 14 their matrix has condition number above 10^9."""
    vectors = np.vander(np.linspace(0.1, 1, 400), dimension)
    found = dpbai.max_det(vectors, max_subsets=0)
    assert len(found.indices) == dimension
    assert np.abs(found.coordinates).max() <= 1 + 1e-9
    np.testing.assert_allclose(found.coordinates @ vectors[found.indices], vectors, atol=1e-9)


def test_batches_of_subsets_do_not_change_the_best(monkeypatch):
    vectors = np.random.default_rng(3).integers(-2, 3, size=(12, 3)).astype(float)
    whole = dpbai.max_det(vectors)
    monkeypatch.setattr(import_module("dpbai.max_det"), "_BATCH_ENTRIES", 20)
    assert dpbai.max_det(vectors).indices.tolist() == whole.indices.tolist()


@pytest.mark.parametrize(("arms", "exact"), [(44, True), (45, True), (46, False)])
def test_search_is_exact_as_long_as_subsets_are_few(arms, exact):
    # 45 choose 2 is 990.
    vectors = np.random.default_rng(arms).normal(size=(arms, 2))
    assert dpbai.max_det(vectors, max_subsets=990).certified is exact


@pytest.mark.parametrize("factor", [1e-8, 1, 1e8])
@given(vectors=bad_features())
def test_rank_ignores_the_scales_of_rows_and_columns(vectors, factor):
    columns = factor ** (np.arange(vectors.shape[1]) % 2)
    rows = factor ** (np.arange(len(vectors))[:, None] % 2)
    assert rank(vectors * columns) == rank(vectors)
    assert rank(vectors * rows) == rank(vectors)


def test_columns_that_depend_on_one_another_are_never_well_conditioned():
    """Nor are columns that are dependent except for rounding errors."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        dimension = int(rng.integers(2, 12))
        vectors = rng.normal(size=(30, dimension)) * 10.0 ** rng.uniform(-3, 3, dimension)
        assert rank(vectors) == dimension
        vectors[:, -1] = vectors[:, :-1] @ rng.normal(size=dimension - 1)
        assert not scaling._well_conditioned(vectors)
        assert rank(vectors) == dimension - 1


def test_reduced_arms_keep_their_inner_products():
    """Eq. (dim-reduce): coordinates in an orthonormal basis of the span."""
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(7, 3)) @ rng.normal(size=(3, 6))
    reduced = span_coordinates(vectors)
    assert reduced.shape == (7, 3)
    np.testing.assert_allclose(reduced @ reduced.T, vectors @ vectors.T)
    full = rng.normal(size=(7, 3))
    np.testing.assert_array_equal(span_coordinates(full), full)


def exact_rank(matrix):
    """The rank by Gaussian elimination in fractions."""
    rows, rank = [list(map(Fraction, row)) for row in matrix.tolist()], 0
    for column in range(matrix.shape[1]):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            factor = rows[i][column] / rows[rank][column]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_arms_and_features_of_any_scales_have_a_max_det_collection(data):
    """Small integers of any rank, rows and columns times powers of two up to 2^300 each way."""
    entries = st.integers(-3, 3)
    arms, dimension, rank = (data.draw(st.integers(1, n)) for n in (7, 4, 4))
    left = data.draw(arrays(float, (arms, rank), elements=entries))
    right = data.draw(arrays(float, (rank, dimension), elements=entries))
    rows = data.draw(arrays(int, (arms, 1), elements=st.sampled_from([-133, -27, 0, 27, 133, 300])))
    columns = data.draw(arrays(int, dimension, elements=st.sampled_from([-300, -133, 0, 133])))
    vectors = np.ldexp(left @ right, rows + columns)
    for most in (10**6, 0):
        found = max_det(vectors, max_subsets=most)
        assert len(found.indices) == exact_rank(vectors)
        assert np.abs(found.coordinates).max(initial=0.0) <= 1 + 1e-9
        largest = np.abs(vectors).max(axis=0)
        error = found.coordinates @ vectors[found.indices] - vectors
        assert (np.abs(error) <= 1e-9 * largest).all()


def test_features_that_are_combinations_of_short_ones_hide_no_part_either():
    """The first and the last are parallel, and long; the rank is two."""
    vectors = np.ldexp([[1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [2.0, 1.0, 2.0]], [-266, -433, -433])
    found = max_det(vectors)
    assert found.indices.tolist() == [1, 2]
    np.testing.assert_allclose(found.coordinates, [[0.5, 0.5], [1, 0], [0, 1]], atol=1e-15)


def test_an_arm_that_lacks_the_long_feature_hides_no_part_of_the_others():
    """Scaled to order one on its own, it would leave the short feature of the others at 2^-167."""
    vectors = np.ldexp([[1.0, 1.0], [1.0, 0.0], [1.0, 2.0]], [-433, -266])
    found = max_det(vectors)
    assert found.indices.tolist() == [1, 2]
    assert found.coordinates == pytest.approx(np.array([[0.5, 0.5], [1, 0], [0, 1]]), abs=1e-12)


@pytest.mark.parametrize("scale", [1e-40, 1e-8, 1e8, 1e40])
def test_one_arm_of_another_scale_among_duplicates_and_zeros(scale):
    vectors = np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, scale, 0.0]])
    found = max_det(vectors)
    assert found.indices.tolist() == [0, 3]
    assert found.log_abs_det == pytest.approx(math.log(scale), rel=1e-9)


TINY_ENTRIES = [
    [[1, 1e-30], [0.5, 0.5], [1e-30, 1], [1e-22, 1]],
    [[1e-40, 1], [1, 1], [1, -1], [2, 1]],
    [[1, 1e-100], [0.25, 0.5], [1e-100, 1], [0.5, 0.25]],
    [[1, 1e-12, 0], [0.5, 0.5, 1e-40], [1e-30, 1, 0.25], [0.1, 0.2, 0.3]],
]


def exact_combination(coordinates, rows):
    """Return the combination of rows, in fractions, rounded once."""
    return [
        float(sum(Fraction(c) * Fraction(row[j]) for c, row in zip(coordinates, rows, strict=True)))
        for j in range(len(rows[0]))
    ]


@pytest.mark.parametrize("max_subsets", [0, 10**6])
@pytest.mark.parametrize("vectors", TINY_ENTRIES)
def test_a_few_tiny_entries_mislead_no_coordinate(vectors, max_subsets):
    found = dpbai.max_det(vectors, max_subsets=max_subsets)
    basis = [[float(entry) for entry in vectors[arm]] for arm in found.indices]
    assert len(basis) == len(vectors[0])
    for row, coordinates in zip(vectors, found.coordinates.tolist(), strict=True):
        np.testing.assert_allclose(exact_combination(coordinates, basis), row, atol=1e-12)
    assert np.abs(found.coordinates).max() <= 1 + 1e-9


@pytest.mark.parametrize("deviation", [5, 15, 30, 60])
def test_softmax_features_give_the_means_that_they_describe(deviation):
    """With probabilities down to 1e-80, the estimates without noise are the means."""
    rng = np.random.default_rng(deviation)
    for _ in range(30):
        logits = deviation * rng.normal(size=(25, 3))
        features = special.softmax(logits, axis=1)
        theta = rng.uniform(0, 1, 3)
        means = features @ theta
        phase = dpbai.DPBAI(features, budget=10**4, epsilon=math.inf).phase(1, range(25))
        estimates = phase.estimates(phase.statistic(means[list(phase.pulled)]))
        np.testing.assert_allclose(estimates, means, atol=1e-6)


def test_a_scale_at_which_an_entry_overflows_is_not_taken():
    """One entry of 1e300 among tiny ones: scaling by the mean of logarithms overflows."""
    tiny = np.array([[1, 2, 1], [3, 1, 1], [1, 3, 2], [2, 3, 2]]) * 1e-300
    vectors = np.block([[np.array([[1e300]]), tiny[:1]], [np.full((4, 1), 1e-300), tiny]])
    scaled, _, _ = balancings(vectors)[0]
    assert np.isfinite(scaled).all()
    assert rank(vectors) == 4
