"""Sec. 3.1: sizes of the active sets, phases, and T', by hand and by brute force."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_loop import DPBAILoop, sizes

from dpbai import Schedule
from dpbai.schedule import baseline_collections, ceil_div, dp_bai_collections, pulls_max_det

CONVENTIONS = ("printed", "proof")
GRID = [(arms, dimension) for arms in range(2, 201) for dimension in range(1, 13)]


def example(convention="printed"):
    """Return the schedule of the paper's example, K = 10000, d = 16, with T = 10^6."""
    return Schedule(10_000, 16, 10**6, convention)


def test_lambda_is_the_least_base_from_two_on_whose_power_reaches_the_excess():
    assert example().lam == pytest.approx(27.6496, abs=5e-5)  # natural logarithm
    # 2^(log 4) = 2.61 reaches K - 4 = 2, so lambda is 2; it does not reach 3.
    assert Schedule(6, 4, 1000).lam == 2
    assert Schedule(7, 4, 1000).lam == pytest.approx(3 ** (1 / math.log(4)))
    # d = 1: every base gives 1, which is enough for K = 2 and never for K = 3.
    assert Schedule(2, 1, 1000).lam == 2
    assert Schedule(3, 1, 1000).lam == math.inf
    for arms, dimension in GRID[::7]:
        lam = Schedule(arms, dimension, 10**6).lam
        excess = arms - math.ceil(dimension**2 / 4)
        if math.isfinite(lam):
            assert lam ** math.log(dimension) >= excess * (1 - 1e-12)
            assert lam == 2 or (lam * (1 - 1e-9)) ** math.log(dimension) < excess


def test_g_and_h_of_the_papers_example():
    assert example().g == (64, 32, 16, 8, 4, 2, 1)
    assert example().h == (9936, 359, 13, 0)  # 9937/27.65 = 359.4, 360/27.65 = 13.02, 14/27.65


def test_g_and_h_worked_out_by_hand():
    # K = 20, d = 4: target 4, lambda = 16^(1/log 4) = 7.389; 17/7.389 = 2.3, 3/7.389 = 0.4.
    schedule = Schedule(20, 4, 1000)
    assert schedule.g == (4, 2, 1)
    assert schedule.h == (16, 2, 0)
    assert (schedule.M1, schedule.M) == (2, 3)
    assert schedule.sizes == (20, 6, 2, 1)
    # Fewer arms than ceil(d^2/4): the first stage has nothing to eliminate.
    schedule = Schedule(5, 6, 1000)
    assert schedule.g == (5, 3, 2, 1)
    assert schedule.h == (0, 0)
    assert schedule.sizes == (5, 3, 2, 1)


def test_sizes_of_the_papers_example_under_both_conventions():
    """The appendix prints s_1 = 1000 for K = 10000, and halves from 64 where eq. (s-p) has 32."""
    printed, proof = example("printed"), example("proof")
    assert printed.sizes == (10_000, 423, 77, 32, 16, 8, 4, 2, 1)
    assert (printed.M1, printed.M) == (3, 8)
    assert proof.sizes == (10_000, 423, 77, 64, 32, 16, 8, 4, 2, 1)
    assert (proof.M1, proof.M) == (3, 9)
    assert printed.shrinkage == pytest.approx((9936 / 359, 359 / 13))
    assert printed.shrinkage == pytest.approx((27.68, 27.62), abs=0.005)


def test_the_proofs_first_stage_is_empty_when_there_are_few_arms():
    proof = Schedule(9, 6, 1000, "proof")
    assert (proof.M1, proof.sizes) == (0, (9, 5, 3, 2, 1))


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_sizes_fall_strictly_from_all_arms_to_one(convention):
    for arms, dimension in GRID:
        schedule = Schedule(arms, dimension, 10**6, convention)
        assert schedule.sizes[0] == arms
        assert schedule.sizes[-1] == 1
        assert len(schedule.sizes) == schedule.M + 1
        assert (np.diff(schedule.sizes) < 0).all()


def test_printed_sizes_are_those_of_the_plain_loop():
    for arms, dimension in GRID:
        schedule = Schedule(arms, dimension, 10**6)
        assert (list(schedule.sizes), schedule.M1) == sizes(arms, dimension)


def test_one_dimension_needs_one_phase():
    for arms in (2, 3, 50):
        for convention in CONVENTIONS:
            schedule = Schedule(arms, 1, 100, convention)
            assert (schedule.sizes, schedule.M) == ((arms, 1), 1)


def test_usable_budget_as_printed_is_the_budget_less_the_reserve():
    # M_1 d + (M - M_1) ceil(d^2/4) = 3 * 16 + 5 * 64 and, in the proof's numbers, 3 * 16 + 6 * 64.
    assert example().printed_budget == 10**6 - 368
    assert example("proof").printed_budget == 10**6 - 432
    assert Schedule(30, 2, 400).printed_budget == 398
    assert Schedule(30, 2, 400, budget_rule="printed").usable_budget == 398


def test_max_det_is_pulled_only_below_the_square_root():
    """Line 6 of Algorithm 1; equality leads to line 14."""
    assert pulls_max_det(2, 5)
    assert not pulls_max_det(2, 4)
    assert not pulls_max_det(3, 8)
    # Ranks 1..4 of 16 arms: 1, 2 or 3 pulled, or all 16; with 17 arms, 4 as well.
    assert dp_bai_collections(16, 4) == {1, 2, 3, 16}
    assert dp_bai_collections(17, 4) == {1, 2, 3, 4}
    assert dp_bai_collections(2, 4) == {1, 2}
    assert baseline_collections(16, 4) == {16}


def test_ceil_div_is_exact_where_floats_are_not():
    assert ceil_div(10**17 + 1, 10) == 10**16 + 1
    assert [ceil_div(n, 3) for n in (1, 3, 4)] == [1, 1, 2]


def dearest_cost(sizes, dimension, usable, pull_all=False):
    """Return the largest number of pulls over all ranks, for an array of values of T'."""
    phases = len(sizes) - 1
    total = np.zeros_like(usable)
    for size in sizes[:-1]:
        counts = [size] if pull_all else dp_bai_counts(size, dimension)
        total += np.max([m * -(-usable // (phases * m)) for m in counts], axis=0)
    return total


def dp_bai_counts(size, dimension):
    return [r if r < math.sqrt(size) else size for r in range(1, min(size, dimension) + 1)]


def worst_overspending(arms, dimension, convention):
    """Return by how much the printed T' can exceed the budget, over all T' up to 3000."""
    schedule = Schedule(arms, dimension, 10**6, convention)
    usable = np.arange(1, 3001)
    cost = dearest_cost(schedule.sizes, dimension, usable)
    return int((cost - usable - schedule.reserve).max())


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_as_printed_121_pairs_of_arms_and_dimension_can_overspend(convention):
    """The enumeration is independent of the library."""
    pairs = [(arms, dimension) for arms in range(3, 80) for dimension in range(2, 9)]
    assert sum(worst_overspending(*pair, convention) > 0 for pair in pairs) == 121


def test_overspending_as_printed_by_example():
    """68 pulls for T = 61 with K = 16, d = 4; by 45 with K = 64, d = 8; by 1 with 4, 2."""
    printed = Schedule(16, 4, 61, budget_rule="printed")
    assert printed.dearest(printed.usable_budget) == 68
    assert worst_overspending(64, 8, "printed") == 45
    assert worst_overspending(4, 2, "printed") == 1
    baseline = Schedule(30, 2, 100, budget_rule="printed", collections=baseline_collections)
    assert baseline.dearest(baseline.usable_budget) == 120


def test_strict_and_printed_budgets_agree_on_the_papers_own_dp_bai_instances():
    for arms in (30, 2):
        for budget in range(5, 2000):
            strict = Schedule(arms, 2, budget)
            assert strict.usable_budget == strict.printed_budget


shapes = st.tuples(st.integers(2, 80), st.integers(1, 9))
collections = st.sampled_from([dp_bai_collections, baseline_collections])


@given(shape=shapes, more=st.integers(0, 400), every=collections)
def test_strict_budget_is_the_largest_that_cannot_overspend(shape, more, every):
    """Compared with the plain loop, which lowers T' one by one."""
    arms, dimension = shape
    budget = least_budget(arms, dimension, every) + more
    schedule = Schedule(arms, dimension, budget, collections=every)
    loop = DPBAILoop(
        np.zeros((arms, dimension)), budget, 1.0, pull_all=every is baseline_collections
    )
    assert schedule.usable_budget == loop.usable


@given(
    shape=shapes,
    every=collections,
    convention=st.sampled_from(CONVENTIONS),
    budget=st.one_of(st.integers(0, 3000), st.integers(10**9, 2**53 - 10**5)),
)
def test_strict_budget_is_never_dearest_cost(shape, every, convention, budget):
    least = least_budget(*shape, every, convention)
    schedule = Schedule(*shape, least + budget, convention, collections=every)
    assert 1 <= schedule.usable_budget <= schedule.printed_budget
    cost = dearest_cost(
        schedule.sizes,
        shape[1],
        np.array([schedule.usable_budget]),
        pull_all=every is baseline_collections,
    )
    assert cost <= schedule.budget


def least_budget(arms, dimension, every, convention="printed", rule="strict"):
    """Return the least budget that the error message names."""
    with pytest.raises(ValueError, match="budget must be at least") as error:
        Schedule(arms, dimension, 1, convention, rule, every)
    return int(re.search(r"at least (\d+)", str(error.value)).group(1))


@given(
    shape=shapes,
    every=collections,
    convention=st.sampled_from(CONVENTIONS),
    rule=st.sampled_from(["strict", "printed"]),
)
def test_too_small_a_budget_names_the_least_one_that_works(shape, every, convention, rule):
    least = least_budget(*shape, every, convention, rule)
    schedule = Schedule(*shape, least, convention, rule, every)
    assert schedule.usable_budget >= 1
    if rule == "strict":
        assert schedule.dearest(schedule.usable_budget) <= least
    with pytest.raises(ValueError, match=f"at least {least} "):
        Schedule(*shape, least - 1, convention, rule, every)
