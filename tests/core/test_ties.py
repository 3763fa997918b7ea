"""Ties: estimates equal to within rounding tie, and all arms that tie have the same chance.

So the labels of the arms do not matter: relabelling them relabels the law of the answer.
"""

import math
from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import FALSE_ALARM
from scipy import stats

import dpbai
from dpbai.audits import PullByPull, log_survival, run_on_table
from dpbai.audits.pull import output_law
from dpbai.field.session import NumpyNoise
from dpbai.noise import NoNoise
from dpbai.phase import Phase


def plan(decoder, keep=1, release=None):
    """A phase without noise that decodes with these rows."""
    arms, coordinates = np.shape(decoder)
    return Phase(
        1,
        tuple(range(arms)),
        tuple(range(coordinates)),
        (1,) * coordinates,
        NoNoise(),
        keep,
        release,
        np.array(decoder, dtype=float),
    )


def by_random_priority(estimates, keep):
    """Rank the arms, equal ones in any order; return the probability of each set of survivors."""
    orders = list(permutations(range(len(estimates))))
    kept = Counter(
        tuple(sorted(sorted(order, key=lambda arm: -estimates[arm])[:keep])) for order in orders
    )
    return {arms: count / len(orders) for arms, count in kept.items()}


@given(estimates=st.lists(st.integers(-2, 2), min_size=2, max_size=5), data=st.data())
def test_the_law_of_the_survivors_is_that_of_ranking_in_random_order(estimates, data):
    keep = data.draw(st.integers(1, len(estimates)))
    found = log_survival(plan(np.eye(len(estimates)), keep), np.array([estimates], dtype=float))
    expected = by_random_priority(estimates, keep)
    assert {kept: math.exp(v[0]) for kept, v in found.items()} == pytest.approx(expected)


@pytest.mark.parametrize("keep", [1, 2, 3, 4])
@pytest.mark.parametrize("estimates", [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 2, 1), (2, 2, 1, 1)])
def test_survivors_are_drawn_from_that_law(estimates, keep):
    trials = 20_000
    phase = plan(np.eye(4), keep)
    drawn = phase.survivors(np.tile(np.array(estimates, float), (trials, 1)), generator())
    counts = Counter(map(tuple, drawn.tolist()))
    expected = by_random_priority(estimates, keep)
    assert set(counts) <= set(expected)
    for kept, chance in expected.items():
        assert stats.binomtest(counts[kept], trials, chance).pvalue > FALSE_ALARM


def generator():
    return np.random.default_rng(0)


@settings(max_examples=50)
@given(data=st.data())
def test_neither_units_nor_rounding_make_or_break_a_tie(data):
    """Small integers, for which ties are exact, in other units and with rounding errors."""
    arms = data.draw(st.integers(2, 6))
    q = data.draw(st.integers(1, 2))
    keep = data.draw(st.integers(1, arms))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    decoder = rng.integers(-2, 3, (arms, q)).astype(float)
    released = rng.integers(-2, 3, (20, q)).astype(float)
    sure, equal = plan(decoder, keep).tied(released)
    units = 10.0 ** rng.integers(-9, 10, q)
    last_digits = 1 + 1e-14 * rng.uniform(-1, 1, (arms, q))
    other = plan(decoder / units * last_digits, keep, np.diag(units)).tied(released * units)
    np.testing.assert_array_equal(other, (sure, equal))
    # An arm in another unit ties with 0 if and only if it did before.
    small = decoder.copy()
    small[0] *= 1e-9
    _, with_zero = plan(np.vstack([small[0], np.zeros(q)])).tied(released)
    np.testing.assert_array_equal(with_zero[:, 0] & with_zero[:, 1], released @ decoder[0] == 0)


def test_rounding_errors_of_a_sum_that_cancels_make_no_difference():
    """100 + 200 - 300 is 0, up to rounding errors of 1e-13; a difference of 0.3 is not rounding."""
    release, decoder = np.array([[100.0, 200, -300]]), np.array([[1.0], [-1.0], [-9.0]])
    phase = Phase(1, (0, 1, 2), (0, 1, 2), (1, 1, 1), NoNoise(), 1, release, decoder)
    _, equal = phase.tied(np.array([[1e-13], [0.3]]))
    assert equal.tolist() == [[True, True, True], [True, False, False]]


def test_only_differences_within_rounding_are_ties():
    phase = plan(np.eye(2))
    released = np.array([[0.5, 0.5 + 1e-9], [1e6, 1e6 + 1e-3], [0.5, 0.5 + 1e-13]])
    sure, equal = phase.tied(released)
    assert not sure.any()  # the last place is the only one
    assert equal.tolist() == [[False, True], [False, True], [True, True]]


@given(seed=st.integers(0, 2**32), q=st.integers(1, 2), lattice=st.booleans())
@settings(max_examples=15)
def test_many_trials_at_once_have_the_survivors_that_pairs_of_arms_have(seed, q, lattice):
    """`survivors` compares pairs only where there may be a tie, `tied` everywhere."""
    rng = np.random.default_rng(seed)
    if lattice:  # many arms on one edge, and many equal ones
        decoder, released = (rng.integers(-2, 3, (n, q)).astype(float) for n in (30, 2048))
    else:
        decoder, released = rng.normal(size=(30, q)), rng.normal(size=(2048, q))
    phase = plan(decoder)
    _, equal = phase.tied(released)
    assert (equal.sum(axis=1) > 1).any() == lattice
    (winners,) = phase.survivors(released, rng).T
    assert equal[np.arange(2048), winners].all()
    shares = (equal / equal.sum(axis=1, keepdims=True)).sum(axis=0)
    counts = np.bincount(winners, minlength=30)
    for count, share in zip(counts, shares, strict=True):
        assert stats.binomtest(int(count), 2048, share / 2048).pvalue > 1e-12


def test_nothing_is_drawn_where_there_is_no_tie():
    rng = generator()
    plan(np.eye(3), 2).survivors(np.array([[1.0, 2, 3], [5, 5, 1]]), rng)
    assert rng.random() == generator().random()


# Against enumeration


def least_squares(features, phase):
    """Return the matrix from empirical means to estimates, in fractions (d = 2)."""
    rows = [[Fraction(str(x)) for x in features[arm]] for arm in phase.active]
    used = [rows[phase.active.index(arm)] for arm in phase.pulled]
    moment = [
        [sum(n * a[i] * a[j] for n, a in zip(phase.pulls, used, strict=True)) for j in (0, 1)]
        for i in (0, 1)
    ]
    (a, b), (c, d) = moment
    inverse = [[d, -b], [-c, a]]
    weights = [
        [
            sum(row[i] * inverse[i][j] * n * other[j] for i in (0, 1) for j in (0, 1))
            for n, other in zip(phase.pulls, used, strict=True)
        ]
        for row in rows
    ]
    return [[entry / (a * d - b * c) for entry in row] for row in weights]


def enumerated(features, means, phase):
    """Return the probability of each arm, over all sums of 0 and 1, with random ties."""
    weights = least_squares(features, phase)
    law = [0.0] * len(phase.active)
    for sums in product(*(range(n + 1) for n in phase.pulls)):
        chance = math.prod(
            float(stats.binom.pmf(k, n, means[arm]))
            for k, n, arm in zip(sums, phase.pulls, phase.pulled, strict=True)
        )
        x = [Fraction(k, n) for k, n in zip(sums, phase.pulls, strict=True)]
        estimates = [sum(w * v for w, v in zip(row, x, strict=True)) for row in weights]
        first = [i for i, value in enumerate(estimates) if value == max(estimates)]
        for i in first:
            law[i] += chance / len(first)
    return law


OBLIQUE = [(1.3, 0.8), (1, -1.1)]
ON_A_LINE = [(1.3, 0.8), (1, -1.1), (1.15, -0.15), (0.4, 0.2)]
CASES = [(OBLIQUE, (0.5, 0.45), 43), (OBLIQUE, (0.5, 0.45), 12), (ON_A_LINE, (0.6, 0.5), 31)]


@pytest.mark.parametrize(("features", "means", "budget"), CASES)
def test_od_linbai_answers_as_enumerated_in_fractions(features, means, budget):
    theta = np.linalg.solve(features[:2], means)
    for order in permutations(range(len(features))) if len(features) == 2 else [range(4)]:
        rows = [features[arm] for arm in order]
        instance = dpbai.Instance(rows, theta, rewards=dpbai.Bernoulli)
        policy = dpbai.ODLinBAI(rows, budget=budget)
        phase = policy.phase(1, range(len(rows)))
        law = enumerated(rows, instance.means, phase)
        result = dpbai.simulate(policy, instance, trials=100_000, seed=1)
        for count, chance in zip(result.recommended.tolist(), law, strict=True):
            assert stats.binomtest(count, 100_000, chance).pvalue > FALSE_ALARM
        if len(rows) == 2:
            assert dpbai.exact_success(policy, instance) == pytest.approx(law[instance.best])
        grid = np.array(list(product(*(range(n + 1) for n in phase.pulls))))
        pulled = instance.means[list(phase.pulled)]
        weight = stats.binom.pmf(grid, phase.pulls, pulled).prod(axis=1)
        exact = log_survival(phase, grid / np.array(phase.pulls))
        for arm, chance in enumerate(law):
            found = weight @ np.exp(exact.get((arm,), np.full(len(grid), -np.inf)))
            assert found == pytest.approx(chance, abs=1e-12)


# Relabelling

FEATURES = np.array([[0.9, 0.4], [0.2, 0.8], [0.5, 0.5], [0.5, 0.5], [0.3, 0.1]])
THETA = np.array([0.45, 0.2])
MAKERS = {
    "DP-BAI": partial(dpbai.DPBAI, epsilon=2.0),
    "DP-BAI, no noise": partial(dpbai.DPBAI, epsilon=math.inf),
    "DP-BAI-Gauss": partial(dpbai.DPBAIGauss, epsilon=2.0, delta=1e-3),
    "Baseline": partial(dpbai.Baseline, epsilon=2.0),
    "Baseline, no noise": partial(dpbai.Baseline, epsilon=math.inf),
    "DPDesign": partial(dpbai.DPDesign, epsilon=2.0, phases=1),
    "DPDesign, no noise": partial(dpbai.DPDesign, epsilon=math.inf, phases=1),
    "OD-LinBAI": dpbai.ODLinBAI,
    "DP-OD": partial(dpbai.DPOD, epsilon=2.0),
    "DP-OD, l1": partial(dpbai.DPOD, epsilon=2.0, norm="l1"),
}
ORDERS = [(4, 3, 2, 1, 0), (2, 0, 3, 4, 1)]
LAWS = {
    "Bernoulli": dpbai.Bernoulli,
    "Uniform": dpbai.Uniform,
    "Beta": dpbai.Beta,
    "Empirical": lambda mean: dpbai.Empirical([0.1, 1.0, 0.55], _shares((mean - 0.1) / 0.9)),
}


def _shares(level):
    """Return shares of three values whose mean is at this level between the extremes."""
    return [1 - 1.2 * level, 0.8 * level, 0.4 * level]


REMEMBERING = {
    "DPDesign, two phases": partial(dpbai.DPDesign, epsilon=2.0, phases=2),
    "DPDesign, two phases, no noise": partial(dpbai.DPDesign, epsilon=math.inf, phases=2),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", MAKERS | REMEMBERING)
def test_relabelling_relabels_what_simulations_and_exact_probabilities_answer(name, law):
    trials = 20_000
    counts = []
    for seed, order in enumerate([tuple(range(5)), *ORDERS]):
        rows = FEATURES[list(order)]
        instance = dpbai.Instance(rows, THETA, rewards=LAWS[law])
        policy = (MAKERS | REMEMBERING)[name](rows, budget=26)
        result = dpbai.simulate(policy, instance, trials=trials, seed=seed)
        counts.append(result.recommended[np.argsort(order)])
        if law != "Bernoulli" or name not in {"DP-BAI", "DP-BAI-Gauss", "Baseline"}:
            continue
        chance = dpbai.exact_success(policy, instance)
        assert stats.binomtest(result.successes, trials, chance).pvalue > FALSE_ALARM
    table = np.array(counts)
    assert stats.chi2_contingency(table[:, table.any(axis=0)]).pvalue > FALSE_ALARM


THREE = FEATURES[[0, 2, 1]]
TIES = [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]]


@pytest.mark.parametrize("name", MAKERS)
def test_relabelling_relabels_exact_audits(name):
    laws = []
    for order in permutations(range(3)):
        audit = dpbai.exact_audit(MAKERS[name](THREE[list(order)], budget=7))
        by_name = np.argsort(order)
        laws.append(
            {
                (
                    tuple(tuple(sorted(order[arm] for arm in kept)) for kept in output),
                    tuple(audit.grid.table(at)[arm] for arm in by_name),
                ): math.exp(value)
                for output, values in zip(audit.outputs, audit.log_probabilities, strict=True)
                for at, value in enumerate(values)
                if value > -np.inf
            }
        )
    for law in laws[1:]:
        assert law == pytest.approx(laws[0], abs=1e-9)


@pytest.mark.filterwarnings("ignore::dpbai.ReleaseWarning")
@pytest.mark.parametrize("name", MAKERS)
def test_relabelling_relabels_the_answer_of_pulls_runs_and_sessions(name):
    """On one table with ties: pull by pull exactly, the other two by frequencies."""
    policy = MAKERS[name](THREE, budget=7)
    expected = last_arm(output_law(PullByPull(policy), pad(TIES)))
    for order in ((1, 2, 0), (2, 1, 0)):
        policy = MAKERS[name](THREE[list(order)], budget=7)
        rows = [TIES[arm] for arm in order]
        law = last_arm(output_law(PullByPull(policy), pad(rows)))
        assert {order[arm]: p for arm, p in law.items()} == pytest.approx(expected, abs=1e-9)
    runs = run_on_table(policy, rows, 20_000, generator())
    by_table = Counter(order[kept[-1][0]] for kept in runs.elements())
    by_session = Counter(order[session_on(policy, rows, seed)] for seed in range(150))
    for tally in (by_table, by_session):
        for arm in range(3):
            chance = min(expected.get(arm, 0.0), 1.0)
            assert stats.binomtest(tally[arm], tally.total(), chance).pvalue > FALSE_ALARM


def last_arm(law):
    """Return the law of the arm recommended."""
    recommended = Counter()
    for output, chance in law.items():
        recommended[output[-1]] += chance
    return dict(recommended)


def pad(rows):
    """Arm 0 may be pulled at the end, but its rewards are not read."""
    return [[*row, 0, 0, 0] for row in rows]


def session_on(policy, rows, seed):
    """Return the answer of a session on a table."""
    session, read = dpbai.Session(policy, noise=NumpyNoise(seed)), [0] * len(rows)
    while session.requests:
        for arm, pulls in session.requests.items():
            session.record({arm: rows[arm][read[arm] : read[arm] + pulls]})
            read[arm] += pulls
    return session.recommendation


@pytest.mark.filterwarnings("ignore::dpbai.ReleaseWarning")
def test_a_seed_repeats_the_ties_of_a_session_and_they_cannot_be_predicted():
    policy = dpbai.ODLinBAI(np.eye(2), budget=9)
    rows = [[1] * 9] * 2
    assert len({session_on(policy, rows, 3) for _ in range(20)}) == 1
    assert {session_on(policy, rows, None) for _ in range(40)} == {0, 1}


LINE = [[-1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [2.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("policy", "means"),
    [
        (dpbai.ODLinBAI([[1.0], [2.0], [3.0]], budget=6), [0.1, 0.2, 0.3]),
        (dpbai.ODLinBAI([[1.0], [3.0], [3.0]], budget=4), [0.1, 0.2, 0.1]),
        (
            dpbai.DPDesign(LINE, budget=4, epsilon=math.inf, phases=1, misfit=0),
            [0.25, 0.5, 0.4, 0.9, 0.4],
        ),
        (
            dpbai.DPDesign(LINE, budget=8, epsilon=math.inf, phases=1, misfit=0),
            [0.6, 0.5, 0.4, 0.7, 0.4],
        ),
    ],
)
def test_arms_that_all_tie_on_a_lattice_share_the_answer_evenly_in_exact_errors(policy, means):
    """Each table of 0s and 1s separately; tied estimates are fractions of small integers."""
    phase = policy.phase(1, range(len(means)))
    decoder, best, wrong = phase.decoder @ phase.release, int(np.argmax(means)), 0.0
    for sums in product(*(range(n + 1) for n in phase.pulls)):
        chance = math.prod(
            stats.binom.pmf(total, n, means[arm])
            for total, n, arm in zip(sums, phase.pulls, phase.pulled, strict=True)
        )
        estimates = decoder @ (np.array(sums) / phase.pulls)
        first = np.flatnonzero(estimates > estimates.max() - 1e-9)
        wrong += chance * (1 - (best in first) / len(first))
    laws = [dpbai.Bernoulli(mean) for mean in means]
    instance = dpbai.Instance(np.eye(len(means)), rewards=laws)
    assert dpbai.exact_error(policy, instance) == pytest.approx(wrong, rel=1e-9)


def test_a_win_by_ties_alone_is_no_exact_error_of_one():
    """The first arm wins with probability 1/3 if every reward is 0, and otherwise never."""
    policy = dpbai.ODLinBAI([[1.0], [2.0], [-1.0]], budget=4)
    laws = [dpbai.Bernoulli(mean) for mean in (0.5, 0.2, 0.1)]
    instance = dpbai.Instance(np.eye(3), rewards=laws)
    assert dpbai.simulate(policy, instance, trials=1000).successes > 0
    with pytest.raises(ValueError, match="where several arms tie"):
        dpbai.exact_error(policy, instance)
