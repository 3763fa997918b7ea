"""The private design: its optimum, its bound, and its limits without and with much noise."""

from fractions import Fraction
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import bad_features

import dpbai
from dpbai import private_design
from dpbai.beyond.private import Division, distinct


def largest_variance(vectors, pulls, epsilon):
    """Return the largest variance of a contrast, infinite if one is not determined."""
    weights = [n and 1 / (1 / (4 * n) + 2 / (n * epsilon) ** 2) for n in pulls.tolist()]
    information = sum(w * np.outer(a, a) for w, a in zip(weights, vectors, strict=True))
    if np.linalg.matrix_rank(information) < vectors.shape[1]:
        return np.inf
    inverse = np.linalg.inv(information)
    return max((a - b) @ inverse @ (a - b) for a, b in combinations(vectors, 2))


@cache
def divisions(arms, pulls):
    """Return all ways to divide pulls among arms."""
    if arms == 1:
        return np.array([[pulls]])
    parts = [
        np.column_stack([np.full(len(rest), first), rest])
        for first in range(pulls + 1)
        for rest in [divisions(arms - 1, pulls - first)]
    ]
    return np.vstack(parts)


def smallest_variance(vectors, pulls, epsilon, pulled=None):
    """Return the least possible largest variance, over all divisions among the first arms."""
    n = divisions(pulled or len(vectors), pulls)
    n = np.pad(n, ((0, 0), (0, len(vectors) - n.shape[1])))
    weights = n**2 / np.maximum(n / 4 + 2 / epsilon**2, 1e-9)
    information = np.einsum("ki,ij,il->kjl", weights, vectors, vectors)
    some = np.linalg.cond(information) < 1e12
    inverse = np.linalg.inv(information[some])
    contrasts = np.array([a - b for a, b in combinations(vectors, 2)])
    return np.einsum("pj,kjl,pl->kp", contrasts, inverse, contrasts).max(axis=1).min()


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0, np.inf])
@pytest.mark.parametrize("seed", range(6))
def test_the_design_is_near_the_best_of_all_divisions_and_its_bound_below(seed, epsilon):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(5, 2))
    if seed % 2:
        vectors[:, 0] = 1.0
    best = smallest_variance(vectors, 24, epsilon)
    design = private_design(vectors, pulls=24, epsilon=epsilon)
    found = largest_variance(vectors, design.pulls, epsilon)
    assert design.variance == pytest.approx(found)
    assert best <= found * (1 + 1e-9)
    assert found <= 1.1 * best
    assert design.bound <= best * (1 + 1e-9)


@pytest.mark.parametrize(("arms", "dimension"), [(20, 2), (60, 5), (40, 9)])
def test_without_noise_the_bound_proves_the_design(arms, dimension):
    vectors = np.random.default_rng(arms).normal(size=(arms, dimension))
    design = private_design(vectors, pulls=10**7, epsilon=np.inf)
    assert design.variance <= 1.04 * design.bound


@pytest.mark.parametrize("on_the_sphere", [False, True])
def test_with_hundreds_of_arms_a_few_rounds_find_those_that_matter(on_the_sphere):
    """Without noise, the bound is within two fifths of the design, for arms of any lengths."""
    vectors = np.random.default_rng(0).normal(size=(500, 8))
    if on_the_sphere:
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    design = private_design(vectors, pulls=2000, epsilon=np.inf)
    assert design.variance <= 1.4 * design.bound


def crossed(*levels):
    """Return a table with dummy columns: all combinations of levels, the first of each left out."""
    return np.array(
        [
            [1.0, *(float(x == k) for x, n in zip(row, levels, strict=True) for k in range(1, n))]
            for row in product(*map(range, levels))
        ]
    )


def symmetric_families():
    """Yield sets of arms for which many designs are equally good, without copies or parallel arms.

    The exception is an arm and its negative, of which one is pulled but both are compared.
    """
    yield np.array(list(product([0.0, 1.0], repeat=3)))[1:]
    yield np.array(list(product([-1.0, 1.0], repeat=3)))
    yield crossed(2, 2)
    yield crossed(2, 3)
    for d in (3, 4):
        yield np.vstack([np.eye(d), np.zeros(d)])
        yield np.vstack([np.eye(d), np.ones(d)])
        yield np.vstack([np.eye(d), np.full(d, 1 / d)])
    rng = np.random.default_rng(0)
    for size in range(10):
        arms = np.unique(rng.integers(0, 2, size=(4 + size % 3, 3)).astype(float), axis=0)
        arms = np.column_stack([np.ones(len(arms)), arms]) if size % 2 else arms
        if len(arms) > 1 and np.linalg.matrix_rank(arms) == arms.shape[1]:
            yield arms


def test_symmetric_arms_are_divided_near_the_best_whatever_is_copied_and_however_it_is_written():
    """At worst 10 % above the least of all divisions, and 2 % on average.

    With copies of some arms, and in other coordinates, the variance is the same to 0.1 %.
    """
    ratios = []
    rng = np.random.default_rng(1)
    for arms in symmetric_families():
        for pulls, epsilon in ((10, 0.2), (9, 1.5)):
            # Of an arm and its negative, the brute force pulls only one.
            best = smallest_variance(
                arms, pulls, epsilon, pulled=len(arms) - len(arms) // 2 * (arms.min() < 0)
            )
            found = private_design(arms, pulls=pulls, epsilon=epsilon)
            ratios.append(largest_variance(arms, found.pulls, epsilon) / best)
            copied = np.vstack([arms, arms[rng.integers(0, len(arms), size=len(arms))]])
            turned = arms @ rng.normal(size=(arms.shape[1],) * 2)
            for others in (copied[rng.permutation(len(copied))], turned):
                again = private_design(others, pulls=pulls, epsilon=epsilon)
                assert again.variance == pytest.approx(found.variance, rel=1e-3)
    assert len(ratios) > 25
    assert np.mean(ratios) <= 1.02
    assert max(ratios) <= 1.1


def test_copies_are_pulled_as_one():
    """Twice (1, 0): pulls 5, 5, 9, 0 would have 1.6 times the variance."""
    design = private_design([[1, 0], [1, 0], [0, 1], [1, 1]], pulls=20, epsilon=0.1)
    assert sorted(design.pulls.tolist()) == [0, 0, 10, 10]


def test_known_designs_are_found():
    """A basis, or the ends of a line, get equal pulls; of parallel arms only the longest."""
    for epsilon in (0.1, 1.0, np.inf):
        basis = private_design(np.eye(4), pulls=40, epsilon=epsilon)
        np.testing.assert_array_equal(basis.pulls, 10)
        line = np.column_stack([np.ones(9), np.linspace(-1, 1, 9)])
        ends = private_design(line, pulls=100, epsilon=epsilon).pulls
        np.testing.assert_array_equal(ends, [50, *[0] * 7, 50])
        parallel = private_design([[1.0, 2.0], [2.0, 4.0], [-1.0, -2.0]], pulls=7, epsilon=epsilon)
        np.testing.assert_array_equal(parallel.pulls, [0, 7, 0])


def test_noise_concentrates_pulls_on_few_arms():
    """The design changes from XY-optimal, with many arms, to a basis or little more."""
    vectors = np.random.default_rng(5).uniform(size=(60, 5))
    pulled = [
        np.count_nonzero(private_design(vectors, pulls=1500, epsilon=epsilon).pulls)
        for epsilon in (np.inf, 0.5, 0.01)
    ]
    assert pulled[0] > pulled[1] > pulled[2]
    assert pulled[2] in (5, 6)


def test_of_many_arms_the_variance_is_still_the_largest_of_all_pairs():
    vectors = np.random.default_rng(1).normal(size=(400, 4))
    design = private_design(vectors, pulls=2000, epsilon=0.5)
    assert design.variance == pytest.approx(largest_variance(vectors, design.pulls, 0.5))
    assert design.bound < design.variance


def test_a_design_depends_neither_on_the_basis_nor_on_the_order_of_arms():
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(30, 4))
    design = private_design(vectors, pulls=500, epsilon=0.3)
    turned = private_design(vectors @ rng.normal(size=(4, 4)), pulls=500, epsilon=0.3)
    np.testing.assert_array_equal(turned.pulls, design.pulls)
    order = rng.permutation(30)
    shuffled = private_design(vectors[order], pulls=500, epsilon=0.3)
    np.testing.assert_array_equal(shuffled.pulls, design.pulls[order])


@settings(max_examples=50)
@given(
    arms=st.lists(st.tuples(*[st.integers(-1, 1)] * 3), min_size=2, max_size=9),
    epsilon=st.sampled_from([0.05, 0.5, np.inf]),
    seed=st.integers(0, 2**32),
)
def test_symmetric_arms_in_any_order_get_the_same_pulls(arms, epsilon, seed):
    """The same one of many equally good designs is chosen; copies of an arm are interchangeable."""
    vectors = np.array(arms, dtype=float)
    order = np.random.default_rng(seed).permutation(len(arms))
    designs = [
        private_design(listed, pulls=57, epsilon=epsilon) for listed in (vectors, vectors[order])
    ]
    pulls = [
        sorted(zip(listed.tolist(), design.pulls.tolist(), strict=True))
        for listed, design in zip((vectors, vectors[order]), designs, strict=True)
    ]
    assert pulls[0] == pulls[1]
    assert designs[0].variance == designs[1].variance


@settings(max_examples=30)
@given(features=bad_features(), more=st.sampled_from([0, 1, 50, 10**9]), power=st.floats(-9, 9))
def test_a_design_spends_its_pulls_and_determines_every_contrast(features, more, power):
    found = dpbai.max_det(features, max_subsets=0)
    rank = len(found.indices)
    pulls = max(1, rank) + more
    design = private_design(features, pulls=pulls, epsilon=10.0**power)
    left = pulls - design.pulls.sum()
    assert 0 <= left < max(1, np.count_nonzero(design.pulls)) or not rank
    assert (design.pulls >= 0).all()
    assert np.linalg.matrix_rank(found.coordinates[design.pulls > 0]) == rank
    assert design.bound <= design.variance * (1 + 1e-6)


@given(st.lists(st.lists(st.integers(-1, 1), min_size=3, max_size=3), min_size=1, max_size=20))
def test_distinct_arms_are_taken_by_their_first_entry_then_the_second_and_so_on(rows):
    vectors = np.array(rows, dtype=float)
    first, places = distinct(vectors)
    assert vectors[first].tolist() == [list(row) for row in sorted(set(map(tuple, rows)))]
    assert first.tolist() == [rows.index(rows[arm]) for arm in first]
    assert vectors[first[places]].tolist() == rows


@pytest.mark.parametrize("seed", range(8))
def test_as_many_pulls_as_a_double_can_count_are_not_overspent(seed):
    """The sum of rounded shares can be larger by one."""
    vectors = np.random.default_rng(seed).normal(size=(3, 2))
    spent = sum(private_design(vectors, pulls=2**53, epsilon=1.0).pulls.tolist())
    assert 0 <= 2**53 - spent <= 3


def test_equal_arms_get_equal_pulls():
    """Seven pulls of the three arms of a basis are two each; one pull is left."""
    np.testing.assert_array_equal(private_design(np.eye(3), pulls=7, epsilon=1.0).pulls, 2)


@pytest.mark.parametrize("ratio", [0.0, 30.0])
@pytest.mark.parametrize("away", [1.0, 1e-3, 1e-7])
def test_two_arms_with_a_prior_are_divided_best_however_similar_they_are(away, ratio):
    """All divisions are compared in exact arithmetic, with V^-1 of two coordinates written out."""
    pulls, prior = 40, np.array([[3.0, 1.0], [1.0, 2.0]])
    arms = np.array([[0.6, 0.7], [0.6 + away, 0.7 - away / 3]])

    def variance(first):
        (a, b), (_, c) = [[Fraction(entry) for entry in row] for row in prior.tolist()]
        for (x, y), n in zip(arms.tolist(), (first, pulls - first), strict=True):
            x, y, w = Fraction(x), Fraction(y), n and Fraction(4 * n * n) / Fraction(n + ratio)
            a, b, c = a + w * x * x, b + w * x * y, c + w * y * y
        x, y = (Fraction(one) - Fraction(two) for one, two in arms.T.tolist())
        return float((c * x * x - 2 * b * x * y + a * y * y) / (a * c - b * b))

    found = Division(arms, [], ratio, prior).best(pulls)
    assert found.pulls.sum() == pulls
    least = min(map(variance, range(pulls + 1)))
    assert variance(int(found.pulls[0])) == pytest.approx(least, rel=1e-7, abs=0)
    assert found.variance == pytest.approx(least, rel=1e-7, abs=0)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="pulls must be at least 3, got 2"):
        private_design(np.eye(3), pulls=2, epsilon=1.0)
    with pytest.raises(ValueError, match="epsilon must be positive, got 0"):
        private_design(np.eye(3), pulls=20, epsilon=0.0)
    with pytest.raises(ValueError, match="vectors must be finite"):
        private_design([[1.0, np.nan]], pulls=20, epsilon=1.0)


@given(
    st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 60), st.sampled_from([0.0, 1.0, 300.0])
)
@settings(max_examples=100, deadline=None)
def test_of_two_arms_no_division_is_better_than_the_one_found(seed, dimension, pulls, ratio):
    """There is prior information on theta; all divisions are tried, by definition."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(2, dimension))
    prior = np.cov(rng.normal(size=(dimension, 3 * dimension + 2))).reshape(dimension, dimension)
    first, second = vectors

    def variance(one, other):
        own = [w and 4 * w**2 / (w + ratio) for w in (one, other)]
        total = prior + own[0] * np.outer(first, first) + own[1] * np.outer(second, second)
        return (first - second) @ np.linalg.solve(total, first - second)

    found = Division(vectors, [], ratio, prior).best(pulls)
    assert found.pulls.sum() == pulls
    least = min(variance(one, pulls - one) for one in range(pulls + 1))
    assert variance(*found.pulls.tolist()) == pytest.approx(least, rel=1e-6)
    assert found.variance == pytest.approx(least, rel=1e-6)


def test_of_two_arms_and_very_many_pulls_a_thousand_divisions_are_enough():
    """Of two parallel arms the longer gets all pulls; two orthogonal ones get equal pulls."""
    found = Division(np.array([[1.0], [2.0]]), [], 8.0, np.eye(1)).best(10**9)
    np.testing.assert_array_equal(found.pulls, [0, 10**9])
    even = Division(np.eye(2), [], 8.0, np.eye(2)).best(10**9)
    np.testing.assert_array_equal(even.pulls, [5 * 10**8, 5 * 10**8])
