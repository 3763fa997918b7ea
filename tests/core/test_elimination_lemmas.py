"""The lemmas of the proof of Theorem 4.2, against exact probabilities and by brute force.

Some checks take the bound as an argument, to show that they fail with a wrong constant.
"""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy import special, stats

from dpbai import lemmas
from dpbai.lemmas import (
    eliminations,
    first_stage_elimination,
    second_stage_elimination,
    suboptimal_arm,
    suboptimal_arm_gauss,
)
from dpbai.noise import gaussian_sigma
from dpbai.schedule import Schedule

ROUNDING = 1 + 1e-9
CONVENTIONS = ("printed", "proof")


def laplace_sum_tail(weights, scale, x):
    """P(sum_i w_i Z_i >= x) for any real x and distinct abs(w_i), by partial fractions."""
    squares = np.abs(weights) ** 2
    tail = np.zeros(np.shape(x))
    for k, own in enumerate(squares):
        share = np.prod(own / (own - np.delete(squares, k)))
        tail += share * 0.5 * np.exp(-np.abs(x) / (math.sqrt(own) * scale))
    return np.where(np.asarray(x) >= 0, tail, 1 - tail)


def equal_pair_tail(scale, x):
    """P(Z_1 - Z_2 >= x) for two Laplace variables of one scale."""
    y = np.abs(x) / scale
    tail = 0.5 * (1 + y / 2) * np.exp(-y)
    return np.where(np.asarray(x) >= 0, tail, 1 - tail)


def wrong_order(difference, means, n, noise_tail):
    """Exact P(sum_i w_i (mean_i + noise_i) >= 0) for Bernoulli means of n pulls each.

    `difference` holds the weights w, of the arm less the best arm; `noise_tail(x)` is
    P(sum_i w_i noise_i >= x).
    """
    counts = [np.arange(n + 1)] * len(means)
    grid = np.meshgrid(*counts, indexing="ij")
    total = sum(w * g / n for w, g in zip(difference, grid, strict=True))
    weight = np.ones(())
    for mean in means:
        weight = np.multiply.outer(weight, stats.binom.pmf(np.arange(n + 1), n, mean))
    return float((weight * noise_tail(-total)).sum())


# What the paper calls Case 2: (coordinates of arm j, of the best arm, means of the pulled arms).
MAX_DET = [
    ([0.0], [1.0], [0.9]),
    ([0.3], [1.0], [0.7]),
    ([0.2, -0.1], [1.0, 0.0], [0.8, 0.1]),
    ([1.0, -1.0], [0.9, 0.4], [0.55, 0.5]),
    ([-1.0, 1.0], [1.0, -0.6], [0.6, 0.62]),
]
EPSILONS = (0.03, 0.2, 1.0, 8.0)


@cache
def comparisons():
    """Return exact P(arm j is not below the best), its gap, epsilon, n, d_Q and count."""
    found = []
    for n in (1, 2, 3, 5, 9, 16, 30, 60, 110):
        for epsilon in EPSILONS:
            scale = 1 / (n * epsilon)
            for low, high in ((0.5, 0.52), (0.3, 0.7), (0.02, 0.98), (0.0, 1.0)):  # Case 1
                exact = wrong_order(
                    [1, -1], [low, high], n, lambda x, s=scale: equal_pair_tail(s, x)
                )
                found.append((exact, high - low, epsilon, n, None, n))
            for arm, best, means in MAX_DET:
                weights = np.subtract(arm, best)
                exact = wrong_order(
                    weights, means, n, lambda x, w=weights, s=scale: laplace_sum_tail(w, s, x)
                )
                gap = float(-weights @ means)
                found.append((exact, gap, epsilon, n, len(means), math.ceil(n / len(means))))
    return found


def _concentration_holds():
    return all(
        exact <= suboptimal_arm(gap, epsilon=epsilon, count=count) * ROUNDING
        for exact, gap, epsilon, _, _, count in comparisons()
    )


def test_the_concentration_lemma_bounds_the_exact_probability_for_every_number_of_pulls():
    assert len(comparisons()) > 300
    assert all(gap > 0 for _, gap, *_ in comparisons())
    assert sum(suboptimal_arm(g, epsilon=e, count=c) < 1 for _, g, e, _, _, c in comparisons()) > 20
    assert _concentration_holds()


def test_the_concentration_lemma_fails_with_a_constant_too_small(monkeypatch):
    monkeypatch.setattr(lemmas, "LEMMA_CONSTANT", 1 / 2)
    assert not _concentration_holds()


def test_case_1_has_the_constants_4_and_8():
    """exp(-n Delta^2 / 4) + exp(-epsilon n Delta / 8), for every n; 1/2 for either is too small."""
    case_1 = [(p, gap, epsilon, n) for p, gap, epsilon, n, rank, _ in comparisons() if rank is None]

    def holds(rewards, noise):
        return all(
            p <= (math.exp(-n * gap**2 / rewards) + math.exp(-e * n * gap / noise)) * ROUNDING
            for p, gap, e, n in case_1
        )

    assert holds(4, 8)
    assert not holds(4, 1 / 2)
    assert not holds(1 / 2, 8)


def test_case_2_has_the_constants_8_and_16_from_the_linear_branch_on():
    """2 exp(-n Delta^2 / (8 d_Q)) + 2 exp(-epsilon n Delta / 16)."""
    case_2 = [
        (p, gap, epsilon, n, rank)
        for p, gap, epsilon, n, rank, _ in comparisons()
        if rank and epsilon * n * gap >= 8 * rank
    ]
    assert len(case_2) > 40
    for p, gap, epsilon, n, rank in case_2:
        proof = 2 * math.exp(-n * gap**2 / (8 * rank)) + 2 * math.exp(-epsilon * n * gap / 16)
        assert p <= proof * ROUNDING


def equal_sum_tail(count):
    """Return x -> P(Z_1 + ... + Z_count >= x), Z standard Laplace: a difference of two Gammas."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    top = count + 20 * math.sqrt(count) + 30
    y = top * (nodes + 1) / 2
    density = stats.gamma.pdf(y, count) * weights * top / 2
    return lambda x: float(density @ special.gammaincc(count, x + y))


def test_the_noise_step_needs_enough_pulls_but_the_lemma_does_not():
    """The paper's P(G_2) <= exp(-epsilon n Delta / 16) is false for few pulls in many dimensions.

    All coordinates are 1, the worst case. The lemma still holds: where the step fails, the term of
    the rewards exceeds 1, or the term of the noise suffices with the lemma's smaller exponent.
    """
    fails = 0
    for rank in (1, 2, 4, 10, 40, 100):
        tail = equal_sum_tail(rank)
        for gap in (0.1, 0.5, 1.0):
            for epsilon in (0.02, 0.3, 2.0):
                for n in (1, 2, 5, 11, 60, 400, 3000):
                    noise = tail(gap / 4 * n * epsilon)
                    step = math.exp(-epsilon * n * gap / 16)
                    if epsilon * n * gap >= 8 * rank:
                        assert noise <= step
                    fails += noise > step
                    union = 2 * math.exp(-n * gap**2 / (8 * rank)) + 2 * noise
                    count = math.ceil(n / rank)
                    lemma = suboptimal_arm(gap, epsilon=epsilon, count=count)
                    assert min(1, union) <= lemma * ROUNDING
    assert fails > 5


def test_the_rounding_step_needs_a_count_of_two():
    """ceil(x - 1) >= ceil(x)/2 holds for x > 1; n/d_Q >= ceil(x - 1) always holds."""
    for x in np.arange(0.05, 12, 0.05):
        assert (math.ceil(x - 1) >= math.ceil(x) / 2) == (math.ceil(x) >= 2)
    for rank in range(1, 9):
        for usable in range(1, 400):
            pulls = math.ceil(usable / (3 * rank))
            assert pulls / rank >= math.ceil(usable / (3 * rank**2) - 1)
            assert math.ceil(usable / (3 * rank**2)) == math.ceil(pulls / rank)
            # Without the two ceilings, the exponent would be twice as large.
            assert pulls / (8 * rank) >= usable / (8 * 3 * rank**2) - 1e-12


# --- DP-BAI-Gauss


def gauss_comparisons():
    for n in (1, 2, 3, 7, 16, 41, 90):
        for epsilon in (0.05, 0.3, 1.0):
            for delta in (1e-6, 0.01, 0.5):
                sigma = gaussian_sigma(epsilon, delta, "classic") / n
                cases = [([1.0, -1.0], [low, high], n) for low, high in ((0.5, 0.6), (0.02, 0.98))]
                cases += [
                    (np.subtract(arm, best), means, math.ceil(n / len(means)))
                    for arm, best, means in MAX_DET
                ]
                for weights, means, count in cases:
                    deviation = sigma * float(np.linalg.norm(weights))
                    exact = wrong_order(
                        weights, means, n, lambda x, d=deviation: stats.norm.sf(x / d)
                    )
                    yield exact, float(-np.dot(weights, means)), epsilon, delta, count


GAUSS_COMPARISONS = list(gauss_comparisons())


def _gauss_holds():
    return all(
        exact
        <= suboptimal_arm_gauss(gap, sigma=gaussian_sigma(e, d, "classic"), count=count) * ROUNDING
        for exact, gap, e, d, count in GAUSS_COMPARISONS
    )


def test_the_gaussian_concentration_lemma_bounds_the_exact_probability():
    assert _gauss_holds()


def test_the_gaussian_concentration_lemma_fails_with_a_constant_too_small(monkeypatch):
    monkeypatch.setattr(lemmas, "LEMMA_CONSTANT", 1 / 2)
    assert not _gauss_holds()


def test_the_gaussian_lemma_has_the_constants_16_and_32():
    gap, epsilon, delta, count = 0.4, 0.3, 1e-3, 50
    sigma = gaussian_sigma(epsilon, delta, "classic")
    printed = 2 * math.exp(-(gap**2) / 16 * count) + 2 * math.exp(
        -(epsilon**2) * gap**2 / (32 * math.log(1.25 / delta)) * count**2
    )
    assert suboptimal_arm_gauss(gap, sigma=sigma, count=count) == pytest.approx(printed)


def test_case_2_of_the_gaussian_lemma_needs_64_where_32_is_printed():
    """P(G_2) for coordinates of 1: a Gaussian of variance 2 d_Q L/(epsilon n)^2 above Delta/4.

    In case 1, a difference of two such variables above Delta/2, 32 is correct.
    """
    delta, epsilon = 1e-3, 0.2
    L = math.log(1.25 / delta)

    def holds(gap, n, rank, constant):
        deviation = math.sqrt(2 * rank * L) / (epsilon * n)
        bound = math.exp(-((gap * epsilon * n) ** 2) / (constant * rank * L))
        return stats.norm.sf(gap / 4 / deviation) <= bound

    grid = [(g, n, r) for g in (0.2, 0.9) for n in (10, 100, 400, 1000) for r in (1, 2, 5)]
    assert all(holds(*point, 64) for point in grid)
    assert not all(holds(*point, 32) for point in grid)
    for gap, n, _ in grid:
        deviation = math.sqrt(4 * L) / (epsilon * n)
        case_1 = math.exp(-((gap * epsilon * n) ** 2) / (32 * L))
        assert stats.norm.sf(gap / 2 / deviation) <= case_1


def test_one_pulled_arm_refutes_the_printed_step_of_the_gaussian_lemma_but_not_the_lemma():
    """d_Q = 1, coordinates 0 and 1, no noise in the rewards; scaled = Delta epsilon n / sqrt(L)."""
    printed = {scaled: 2 * math.exp(-(scaled**2) / 32) for scaled in np.linspace(0.1, 50, 200)}
    for scaled, bound in printed.items():
        assert stats.norm.sf(scaled / math.sqrt(2)) <= bound * ROUNDING  # the event itself
    # G_4, with which the proof bounds the event: noise of one arm above Delta/4.
    assert any(stats.norm.sf(x / math.sqrt(32)) > bound / 2 for x, bound in printed.items())


# --- From one arm to one phase


SCHEDULES = [
    Schedule(K, d, 10**12, convention)
    for convention in CONVENTIONS
    for d in (*range(2, 17), 25)
    for K in (*range(3, 80), 150, 300, 1000, 10_000, 10**6)
]


def _phases(schedule):
    return eliminations(schedule, rank=schedule.dimension)


@pytest.mark.parametrize("size", [3, 4, 5, 6])
def test_markov_counts_as_many_arms_as_must_beat_the_best_and_no_fewer(size):
    """Over all orders of the arms by noisy means; arms are numbered by gap, and 1 is the best."""
    orders = list(itertools.permutations(range(1, size + 1)))
    for keep in range(1, size):
        dropped = [order for order in orders if 1 not in order[:keep]]
        for index in range(2, keep + 2):
            least = min(sum(arm >= index for arm in order[: order.index(1)]) for order in dropped)
            assert least == keep - index + 2
    # The paper counts one less in the first stage, index = g_0: correct, but not sharp.


def test_the_eliminations_count_arms_as_the_brute_force_does():
    for schedule in SCHEDULES:
        for phase in _phases(schedule):
            assert 2 <= phase.index <= min(schedule.arms, schedule.dimension**2)
            assert phase.excess == phase.keep - phase.index + 2 >= 1
            assert phase.candidates == phase.size - phase.index + 1 >= phase.excess


def _first_stage_factor(schedule, p):
    """The paper's (s_p - g_0 + 1) / (s_{p+1} - g_0 + 1), None where it divides by 0 or less."""
    size, keep = schedule.sizes[p - 1 : p + 1]
    below = keep - schedule.g[0] + 1
    return (size - schedule.g[0] + 1) / below if below > 0 else None


def test_the_first_stage_factor_is_at_most_two_lambda_and_no_less():
    factors = {
        convention: [
            (_first_stage_factor(schedule, p), schedule.lam)
            for schedule in SCHEDULES
            if schedule.convention == convention
            for p in range(1, schedule.M1 + 1)
        ]
        for convention in CONVENTIONS
    }
    assert all(factor <= lam * ROUNDING for factor, lam in factors["proof"])
    assert not all(factor <= 0.95 * lam for factor, lam in factors["proof"])
    assert all(factor is None or factor <= lam * ROUNDING for factor, lam in factors["printed"])


def test_the_printed_sizes_make_the_last_phase_of_the_first_stage_divide_by_zero_or_less():
    """g_1 - g_0 + 1 <= 0 whenever g_0 > 2, that is for d >= 3 (and K >= 3)."""
    for schedule in SCHEDULES:
        if schedule.convention == "printed":
            fails = _first_stage_factor(schedule, schedule.M1) is None
            assert fails == (schedule.dimension >= 3)


def test_the_index_of_step_d_is_off_by_one():
    """s_p - g_0 + 1 is h_{p-1} + 1, not h_p + 1: 9937 and 360 in the paper's example."""
    schedule = Schedule(10_000, 16, 10**6, "proof")
    assert schedule.sizes[0] - schedule.g[0] + 1 == schedule.h[0] + 1 == 9937
    assert schedule.h[1] + 1 == 360


def _second_stage_ratios():
    for schedule in SCHEDULES:
        sizes = (*schedule.sizes, 1)
        for p in range(schedule.M1 + 1, schedule.M + 1):
            size, keep, after = sizes[p - 1 : p + 2]
            yield 2 * (size - after) / (keep - after + 1), size, after


def test_the_second_stage_factor_is_at_most_six_and_no_less():
    ratios = [ratio for ratio, _, _ in _second_stage_ratios()]
    assert max(ratios) <= 6
    assert max(ratios) > 5.7


def test_sizes_of_the_second_stage_shrink_by_at_most_four_in_two_phases():
    """s_p <= 4 s_{p+2} holds, and the proof uses s_p <= 4 (s_{p+2} + 1) = 4 i."""
    pairs = [(size, after) for _, size, after in _second_stage_ratios()]
    assert all(size <= 4 * after + 4 for size, after in pairs)
    assert all(size <= 4 * after for size, after in pairs)
    assert not all(size <= 3 * after for size, after in pairs)


def test_the_sum_over_a_set_of_indices_drops_terms():
    """The last two phases both have s_{p+2} + 1 = 2, which a set contains only once."""
    schedule = Schedule(10_000, 16, 10**6, "proof")
    sizes = (*schedule.sizes, 1)
    indices = [sizes[p + 1] + 1 for p in range(schedule.M1 + 1, schedule.M + 1)]
    assert indices == [17, 9, 5, 3, 2, 2]
    assert len(set(indices)) < schedule.M - schedule.M1


def test_a_quarter_of_the_squared_dimension_turns_16_into_64():
    """16 min(d^2, s_p) <= 64 i in every phase under the proof's sizes; the quarter is needed."""
    for schedule in SCHEDULES:
        for phase in _phases(schedule):
            assert phase.constant <= 64 or phase.reason == "regrouped"
            if phase.reason == "Lemma G.3":
                assert phase.index == math.ceil(schedule.dimension**2 / 4)
    tight = [p.constant for s in SCHEDULES for p in _phases(s) if p.reason == "Lemma G.3"]
    assert max(tight) == 64


def test_the_union_bound_serves_dimension_two_and_beats_the_printed_lemma():
    """For d = 2, g_0 = 1, and the paper's gap is Delta_(1) = 0, that of the best arm."""
    for schedule in SCHEDULES:
        reasons = {phase.reason for phase in _phases(schedule) if phase.phase <= schedule.M1}
        assert ("union bound" in reasons) == (schedule.dimension == 2)
        if schedule.dimension == 2:
            for phase in _phases(schedule):
                assert phase.index == 2
                assert phase.constant <= 32
                assert phase.factor <= schedule.lam * ROUNDING


def test_under_the_printed_sizes_the_constant_64_needs_another_proof_for_some_large_k():
    """In phase M_1 the active set falls from g_0 + h to g_1, about d^2/8, in one step."""
    beyond = {
        (s.arms, s.dimension, s.convention): max(p.constant for p in _phases(s))
        for s in SCHEDULES
        if max(p.constant for p in _phases(s)) > 64
    }
    assert beyond
    assert {convention for *_, convention in beyond} == {"printed"}
    assert min(arms for arms, *_ in beyond) >= 1000
    assert max(beyond.values()) < 128
    assert beyond[1000, 7, "printed"] == 16 * 41 / 8


def test_the_prefactor_covers_all_phases_under_either_convention():
    """12 M + 4 M_1 lambda, and for the Gaussian variant 2 M_1 lambda + 6 (M - M_1)."""
    for s in SCHEDULES:
        factors = sum(phase.factor for phase in _phases(s))
        assert 2 * factors <= (2 * s.M1 * s.lam + 6 * (s.M - s.M1)) * ROUNDING
        assert 4 * factors <= (12 * s.M + 4 * s.M1 * s.lam) * ROUNDING


def drop_probability(gaps, keep, scale):
    """Exact P(the best arm is not among the `keep` largest) with noise alone, Lap(scale) each.

    Given the best arm's noise z, the others outrank it independently: their number has a
    Poisson-binomial law, which is integrated over z piece by piece.
    """
    nodes, weights = np.polynomial.legendre.leggauss(60)
    kinks = sorted({-50 * scale, *(-gap for gap in gaps), 0.0, 50 * scale})
    kinks = [k for k in kinks if k >= -50 * scale]
    kinks = sorted({*kinks, *(-scale * m for m in (1, 3, 8, 20)), *(scale * m for m in (1, 3, 8))})
    total = 0.0
    for left, right in itertools.pairwise(kinks):
        z = (left + right) / 2 + (right - left) / 2 * nodes
        density = np.exp(-np.abs(z) / scale) / (2 * scale) * weights * (right - left) / 2
        beating = np.zeros((keep, z.size))  # row k: P(k others outrank the best), k < keep
        beating[0] = 1
        for gap in gaps:
            p = laplace_sum_tail(np.ones(1), scale, z + gap)
            beating[1:] = beating[1:] * (1 - p) + beating[:-1] * p
            beating[0] *= 1 - p
        total += float((density * (1 - beating.sum(axis=0))).sum())
    return total


def _stage_holds(stage, constant=16):
    """Check a phase in which every arm is pulled: rewards without noise, d_Q^2 >= s_p."""
    checked = 0
    for arms, dimension in ((12, 4), (9, 4), (20, 6), (5, 4), (9, 6)):
        schedule = Schedule(arms, dimension, 10**9, "proof")
        sizes = (*schedule.sizes, 1)
        for p in range(1, schedule.M + 1):
            if (p <= schedule.M1) != (stage == "first"):
                continue
            size, keep, after = sizes[p - 1 : p + 2]
            index = schedule.g[0] if stage == "first" else after + 1
            for gap in (0.3, 1.0):
                gaps = [1e-6] * (index - 2) + [gap] * (size - index + 1)
                for count in (50, 400, 2000):
                    for scaled in (0.5, 8, 60, 130):  # epsilon gap count
                        epsilon = scaled / gap / count
                        of = {"epsilon": epsilon * 16 / constant, "count": count}
                        bound = (
                            first_stage_elimination(gap, **of, lam=schedule.lam)
                            if stage == "first"
                            else second_stage_elimination(gap, **of)
                        )
                        exact = drop_probability(gaps, keep, 1 / (epsilon * count))
                        checked += bound < 1
                        if exact > bound * ROUNDING + 1e-13:
                            return False
    assert checked > 10
    return True


@pytest.mark.parametrize("stage", ["first", "second"])
def test_an_elimination_lemma_bounds_the_exact_probability_and_a_small_constant_fails(stage):
    assert _stage_holds(stage)
    assert not _stage_holds(stage, constant=1 / 2)


def test_the_elimination_lemmas_have_the_constants_two_lambda_and_six():
    gap, epsilon, count = 0.3, 0.7, 90
    both = math.exp(-(gap**2) * count / 16) + math.exp(-epsilon * gap * count / 16)
    of = {"epsilon": epsilon, "count": count}
    assert suboptimal_arm(gap, **of) == pytest.approx(2 * both)
    assert first_stage_elimination(gap, **of, lam=27.65) == pytest.approx(2 * 27.65 * both)
    assert second_stage_elimination(gap, **of) == pytest.approx(6 * both)
