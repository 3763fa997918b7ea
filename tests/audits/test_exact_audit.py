"""The exact audit: its laws against independent integrals, its search against brute force."""

import math
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from functools import cache
from importlib import import_module
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

import dpbai
from dpbai.audits import log_survival, survivors
from dpbai.noise import Gaussian, Laplace, NoNoise
from dpbai.phase import Phase

ROOT = math.sqrt(0.5)
TILTED = np.array([[ROOT, ROOT], [ROOT, -ROOT], [ROOT / 2, ROOT / 2]])
NOISES = [Laplace(0.7), Gaussian(0.6)]


def plan(noise, keep, *, arms=None, decoder=None):
    """Return a phase in which every coordinate is the mean of one arm."""
    arms = len(decoder) if arms is None else arms
    pulled = tuple(range(arms if decoder is None else np.shape(decoder)[1]))
    return Phase(
        index=1,
        active=tuple(range(arms)),
        pulled=pulled,
        pulls=(1,) * len(pulled),
        noise=noise,
        keep=keep,
        decoder_matrix=None if decoder is None else np.array(decoder, dtype=float),
    )


def scipy_law(noise):
    """Return the distribution of the noise in SciPy."""
    if isinstance(noise, Laplace):
        return stats.laplace(scale=noise.scale)
    return stats.norm(scale=noise.sigma)


def law_at(phase, *means):
    return {kept: math.exp(v[0]) for kept, v in log_survival(phase, np.array([means])).items()}


@pytest.mark.parametrize("noise", NOISES, ids=["laplace", "gaussian"])
def test_two_arms_have_the_law_of_a_difference(noise):
    law, z = scipy_law(noise), [0.3, -0.4]
    expected = integrate.quad(lambda x: law.pdf(x) * law.cdf(x + z[0] - z[1]), -20, 20, limit=200)
    found = law_at(plan(noise, 1, arms=2), *z)
    assert found[(0,)] == pytest.approx(expected[0], abs=1e-9)
    assert sum(found.values()) == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("noise", NOISES, ids=["laplace", "gaussian"])
def test_the_dropped_arm_of_three_has_the_least_estimate(noise):
    law, means = scipy_law(noise), np.array([0.9, 0.1, -0.4])
    found = law_at(plan(noise, 2, arms=3), *means)
    for dropped in range(3):
        others = [arm for arm in range(3) if arm != dropped]

        def integrand(x, dropped=dropped, others=others):
            return law.pdf(x - means[dropped]) * np.prod(law.sf(x - means[others]))

        expected = integrate.quad(integrand, -20, 20, points=means, limit=200)[0]
        assert found[tuple(others)] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("noise", NOISES, ids=["laplace", "gaussian"])
@pytest.mark.parametrize("means", [(0.0, 0.0), (0.4, -1.3), (-2.0, 0.1)])
def test_the_law_of_arms_decoded_from_two_coordinates_is_a_sum_over_the_plane(noise, means):
    """The grid of the sum is fine; its error is of the order of the step."""
    decoder = np.array([[1.0, 0.2], [-0.3, 1.0], [0.5, -2.0], [-1.0, -0.1]])
    law = scipy_law(noise)
    edges = np.linspace(-12, 12, 601)
    points = (edges[1:] + edges[:-1]) / 2
    weights = np.outer(*(np.diff(law.cdf(edges - mean)) for mean in means))
    estimates = np.moveaxis(
        np.stack(np.meshgrid(points, points, indexing="ij"), -1) @ decoder.T, 2, 0
    )
    kept = 0
    for keep in (1, 2):
        first = estimates.argmax(axis=0)
        kept = kept + 2**first  # a digit for each arm that survives
        np.put_along_axis(estimates, first[None], -np.inf, axis=0)
        chances = np.bincount(kept.ravel(), weights.ravel(), minlength=16)
        found = law_at(plan(noise, keep, decoder=decoder), *means)
        for arms in combinations(range(4), keep):
            expected = chances[sum(2**arm for arm in arms)]
            assert found.get(arms, 0) == pytest.approx(expected, abs=6e-3)
        assert sum(found.values()) == pytest.approx(1, abs=1e-13)


@settings(max_examples=40)
@given(
    scale=st.floats(0.02, 50),
    means=st.lists(st.floats(0, 1), min_size=4, max_size=4),
    keep=st.integers(1, 3),
    turn=st.floats(0, 6.3),
    laplace=st.booleans(),
)
def test_probabilities_sum_to_one_at_any_scale(scale, means, keep, turn, laplace):
    noise = Laplace(scale) if laplace else Gaussian(scale)
    angles = turn + np.array([0.0, 1.0, 2.5, 4.0])
    decoder = np.column_stack([np.cos(angles), np.sin(angles)])
    for law in (
        law_at(plan(noise, keep, arms=4), *means),
        law_at(plan(noise, keep, decoder=decoder), *means[:2]),
        law_at(plan(noise, keep, decoder=decoder[:, :1]), means[0]),
    ):
        assert sum(law.values()) == pytest.approx(1, abs=1e-11)


@given(means=st.lists(st.floats(-1, 1), min_size=3, max_size=3), order=st.permutations(range(3)))
def test_relabelling_arms_relabels_survivors(means, order):
    phase = plan(Laplace(0.4), 2, arms=3)
    law, relabelled = law_at(phase, *means), law_at(phase, *(means[arm] for arm in order))
    for kept, probability in relabelled.items():
        assert probability == pytest.approx(law[tuple(sorted(order[a] for a in kept))], rel=1e-10)


def test_rare_events_keep_their_digits():
    """With Laplace noise of scale 1 and means 0 and 700, P = (2 + 700) e^-700 / 4."""
    tail = math.log(702 / 4) - 700
    two = log_survival(plan(Laplace(1.0), 1, arms=2), np.array([[0.0, 700.0]]))
    assert two[(0,)][0] == pytest.approx(tail, rel=1e-14)
    apart = log_survival(plan(Laplace(1.0), 1, arms=3), np.array([[0.0, 700.0, -900.0]]))
    assert apart[(0,)][0] == pytest.approx(tail, rel=1e-12)
    decoded = log_survival(
        plan(Laplace(1.0), 1, decoder=[[1.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 700.0]])
    )
    assert decoded[(0,)][0] == pytest.approx(tail, rel=1e-12)


def test_a_narrow_sector_far_in_the_tail_keeps_its_digits():
    """Arm 1 wins if w_2 is between w_1 / 2 and (1/2 + 1e-6) w_1, where the density is e^-(w_1+w_2).

    It is scaled by e^-600 / 4, and its integral over the sector has a closed form.
    """
    low, high = 0.5, 0.5 + 1e-6
    phase = plan(Laplace(1.0), 1, decoder=[[-high, 1.0], [0.0, 0.0], [low, -1.0]])
    found = log_survival(phase, np.array([[-300.0, -300.0]]))[(1,)][0]
    expected = math.log((high - low) / ((1 + low) * (1 + high)) / 4) - 600
    assert found == pytest.approx(expected, abs=2e-9, rel=0)


@pytest.mark.parametrize("rounding", [0.0, 1e-15])
def test_equal_arms_win_equally_often(rounding):
    decoder = [[1.0, 0.0], [0.0, 1.0], [1.0, -rounding]]
    law = law_at(plan(Laplace(1.0), 1, decoder=decoder), 0.2, 0.3)
    alone = law_at(plan(Laplace(1.0), 1, decoder=decoder[:2]), 0.2, 0.3)
    assert law[(1,)] == pytest.approx(alone[(1,)], rel=1e-12)
    assert law[(0,)] == law[(2,)] == pytest.approx(alone[(0,)] / 2, rel=1e-12)


def test_without_noise_only_the_breaking_of_ties_is_random():
    means = np.array([[0.1, 0.3, 0.2], [0.0, 0.0, 0.0], [0.2, 0.2, 0.9]])
    law = log_survival(plan(NoNoise(), 2, arms=3), means)
    assert np.exp(law[(1, 2)]) == pytest.approx([1, 1 / 3, 1 / 2])
    assert np.exp(law[(0, 1)]) == pytest.approx([0, 1 / 3, 0])
    assert np.exp(law[(0, 2)]) == pytest.approx([0, 1 / 3, 1 / 2])


@pytest.mark.parametrize("pulls", [1, 2, 3, 8])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_the_loss_of_two_arms_has_a_closed_form(pulls, epsilon):
    policy = dpbai.DPBAI(np.eye(2), budget=2 * pulls + 1, epsilon=epsilon)
    expected = epsilon - math.log(1 + epsilon / (2 + (pulls - 1) * epsilon))
    assert dpbai.exact_audit(policy).epsilon == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("pulls", "epsilon", "ratio"), [(10, 1.0, 1.319452), (20, 2.0, 1.389246)])
def test_dp_od_as_printed_violates_its_guarantee(pulls, epsilon, ratio):
    """All rewards of arm 0 are 1 and those of arm 1 are 0; one of arm 0 changes to 0."""
    policy = dpbai.DPOD(TILTED, budget=2 * pulls + 3, epsilon=epsilon, norm="l2")
    phase = policy.phase(1, (0, 1, 2))
    assert phase.pulls == (pulls, pulls)
    law = log_survival(phase, np.array([[1.0, 0.0], [1 - 1 / pulls, 0.0]]))[(2,)]
    assert (law[1] - law[0]) / epsilon == pytest.approx(ratio, abs=1e-6)


def test_the_l1_norm_repairs_dp_od():
    printed, repaired = (
        dpbai.exact_audit(dpbai.DPOD(TILTED, budget=15, epsilon=1.0, norm=norm))
        for norm in ("l2", "l1")
    )
    assert printed.event == ((2,),)
    assert 1.41 < printed.epsilon <= math.sqrt(2)
    assert 0.99 < repaired.epsilon <= 1


def test_the_counterexample_to_dp_od_by_an_independent_integral():
    """With two orthonormal pulled arms, V = n I, and the estimates are A U / n for noisy moments U.

    Arm 2 is half of arm 0. It beats arm 0 if U_1 + U_2 < 0, and arm 1 if U_1 < 3 U_2.
    """
    pulls, epsilon = 10, 1.0

    def log_win(share):
        centre = pulls * ROOT * np.array([share, share])

        def inner(second):
            return stats.laplace.logcdf(min(-second, 3 * second) - centre[0], scale=1 / epsilon)

        def integrand(second):
            density = stats.laplace.logpdf(second - centre[1], scale=1 / epsilon)
            return math.exp(inner(second) + density + 2 * pulls * ROOT)

        value = integrate.quad(
            integrand, -40, 60, points=[0.0, centre[1]], limit=500, epsabs=0, epsrel=1e-12
        )
        return math.log(value[0])

    assert log_win(1 - 1 / pulls) - log_win(1.0) == pytest.approx(1.319452, abs=1e-6)


def brute_force(policy, pulls):
    """Return the largest loss of one phase over all tables of zeros and ones."""
    arms = len(pulls)
    phase = policy.phase(1, range(arms))
    tables = list(product((0, 1), repeat=sum(pulls)))
    cuts = np.cumsum(pulls)[:-1]
    means = np.array([[part.mean() for part in np.split(np.array(t), cuts)] for t in tables])
    laws = log_survival(phase, means)
    losses = [
        abs(values[i] - values[j])
        for i, j in combinations(range(len(tables)), 2)
        if np.count_nonzero(np.subtract(tables[i], tables[j])) == 1
        for values in laws.values()
    ]
    return max(losses)


def test_counting_high_rewards_misses_no_table():
    policy = dpbai.DPBAI(np.eye(2), budget=7, epsilon=1.3)
    assert policy.phase(1, (0, 1)).pulls == (3, 3)
    assert dpbai.exact_audit(policy).epsilon == pytest.approx(brute_force(policy, (3, 3)))
    baseline = dpbai.Baseline(np.eye(3)[:, :1], budget=6, epsilon=0.7)
    assert baseline.phase(1, (0, 1, 2)).pulls == (2, 2, 2)
    assert dpbai.exact_audit(baseline).epsilon == pytest.approx(brute_force(baseline, (2, 2, 2)))


def test_the_reported_tables_and_event_attain_the_loss():
    """Two phases; the probabilities are recomputed from the rows of the two tables."""
    policy = dpbai.DPBAI(np.eye(3), budget=18, epsilon=1.0)
    audit = dpbai.exact_audit(policy)
    (first, winner), values = audit.event, []
    for table in audit.tables:
        phase = policy.phase(1, (0, 1, 2))
        n = phase.pulls[0]
        one = log_survival(phase, np.array([[np.mean(row[:n]) for row in table]]))[first][0]
        later = policy.phase(2, first)
        end = n + later.pulls[0]
        means = np.array([[np.mean(table[arm][n:end]) for arm in first]])
        values.append(one + log_survival(later, means)[winner][0])
    assert values[0] - values[1] == pytest.approx(audit.epsilon, rel=1e-12)
    assert (
        sum(np.count_nonzero(np.subtract(*rows)) for rows in zip(*audit.tables, strict=True)) == 1
    )
    assert np.exp(audit.log_probabilities).sum(axis=0) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("budget", [3, 7])
def test_the_event_is_more_likely_on_the_first_table(budget):
    policy = dpbai.DPBAI(np.eye(2), budget=budget, epsilon=1.0)
    audit = dpbai.exact_audit(policy)
    means = np.array([[np.mean(row) for row in table] for table in audit.tables])
    first, second = log_survival(policy.phase(1, (0, 1)), means)[audit.event[0]]
    assert first - second == pytest.approx(audit.epsilon, rel=1e-12)


def test_the_representation_of_an_audit_has_the_loss_and_no_arrays():
    audit = dpbai.exact_audit(dpbai.DPBAI(np.eye(2), budget=7, epsilon=1.0))
    assert repr(audit) == "Audit(epsilon=0.776856, event=((0,),), outputs=2, tables=16)"


def test_losses_of_phases_do_not_add_up():
    """The loss of two phases is the larger one, here that of the first, to all digits."""
    policy = dpbai.DPBAI(np.eye(3), budget=14, epsilon=1.0)
    first = policy.phase(1, (0, 1, 2))
    sums = np.indices((3, 3, 3)).reshape(3, -1).T
    grid = np.stack(list(log_survival(first, sums / 2).values())).reshape(-1, 3, 3, 3)
    alone = max(np.abs(np.diff(grid, axis=axis)).max() for axis in (1, 2, 3))
    assert dpbai.exact_audit(policy).epsilon == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 0.9])
def test_no_event_of_several_outputs_needs_more_delta(epsilon):
    """delta is the largest P(S) - e^epsilon P'(S) over all sets S of outputs."""
    audit = dpbai.exact_audit(dpbai.DPBAI(np.eye(3), budget=9, epsilon=1.0))
    probabilities = np.exp(audit.log_probabilities)
    assert len(audit.outputs) == 6
    worst = 0.0
    for size in range(7):
        for event in combinations(range(6), size):
            inside = probabilities[list(event)].sum(axis=0)
            for pair in (audit.pairs, audit.pairs[:, ::-1]):
                first, second = inside[pair.T]
                worst = max(worst, (first - math.exp(epsilon) * second).max())
    assert audit.delta_at(epsilon) == pytest.approx(worst, abs=1e-12)


def test_delta_vanishes_at_the_loss_and_is_large_without_noise():
    audit = dpbai.exact_audit(dpbai.DPBAI(np.eye(2), budget=7, epsilon=1.0))
    assert audit.delta_at(audit.epsilon) == pytest.approx(0, abs=1e-15)
    assert audit.delta_at(audit.epsilon - 0.01) > 1e-4
    public = dpbai.exact_audit(dpbai.ODLinBAI(TILTED, budget=9))
    assert public.epsilon == math.inf
    # One reward of 1 makes its arm win, and without it each of three arms wins equally often.
    assert public.delta_at(3.0) == pytest.approx(2 / 3)


@pytest.fixture(scope="module")
def nearly_certain():
    """Return an audit with ratios that overflow, and its log probabilities on pairs of tables."""
    audit = dpbai.exact_audit(dpbai.DPBAI(np.eye(3), budget=12, epsilon=1000.0))
    pairs = np.concatenate([audit.pairs, audit.pairs[:, ::-1]])
    return audit, np.unique(audit.log_probabilities[:, pairs], axis=1).transpose(1, 2, 0)


@pytest.mark.parametrize("epsilon", [0.5, 700.0, 709.5, 710.0, 900.0, 1e9, math.inf])
def test_delta_is_right_if_the_exponential_of_epsilon_overflows(epsilon, nearly_certain):
    """Against decimal numbers, with exponents of any size."""
    audit, columns = nearly_certain

    @cache
    def excess(one, other):
        one, other = Decimal(one).exp(), Decimal(other).exp()
        return max(Decimal(0), one - Decimal(epsilon).exp() * other if other else one)

    with localcontext(prec=40, Emax=MAX_EMAX, Emin=MIN_EMIN):
        worst = max(sum(map(excess, *pair)) for pair in columns.tolist())
    assert audit.delta_at(epsilon) == pytest.approx(float(worst), rel=1e-12)
    if epsilon == 710:
        assert float(worst) == pytest.approx(2 / 3, abs=1e-3)


def test_relabelled_arms_give_the_same_loss():
    losses = [
        dpbai.exact_audit(dpbai.DPOD(TILTED[list(order)], budget=9, epsilon=1.0)).epsilon
        for order in permutations(range(3))
    ]
    assert losses == pytest.approx([losses[0]] * 6)


TOO_LARGE = {
    "many tables": lambda: dpbai.DPBAI(np.eye(3), budget=200, epsilon=1.0),
    "many directions": lambda: dpbai.DPBAI(dpbai.synthetic().features, budget=400, epsilon=0.5),
    "a fine rule": lambda: dpbai.DPBAI(np.eye(3), budget=12, epsilon=1e8),
    "a rule too fine for the memory": lambda: dpbai.DPBAI(
        dpbai.synthetic().features, budget=400, epsilon=1e8
    ),
    "many outputs": lambda: dpbai.ODLinBAI(
        np.random.default_rng(0).normal(size=(16, 16)), budget=400
    ),
    "more sets than a double can count": lambda: dpbai.Baseline(
        np.random.default_rng(0).normal(size=(3000, 2)), budget=10**6, epsilon=1.0
    ),
}


@pytest.mark.parametrize("make", TOO_LARGE.values(), ids=TOO_LARGE)
def test_too_much_work_is_refused_before_it_starts(make, monkeypatch):
    def begun(*_):
        raise AssertionError

    monkeypatch.setattr(import_module("dpbai.audits.exact_audit"), "log_joint_survival", begun)
    with pytest.raises(ValueError, match=r"an exact audit may (compute|hold) .*monte_carlo_audit"):
        dpbai.exact_audit(make())


def test_many_tables_with_little_work_for_each_are_allowed():
    audit = dpbai.exact_audit(dpbai.DPBAI(np.eye(2), budget=1201, epsilon=1.0))
    assert audit.grid.size > 2**18
    assert audit.epsilon == pytest.approx(1 - math.log(1 + 1 / 601))


@pytest.mark.parametrize(
    "phase",
    [
        plan(Laplace(0.01), 2, arms=4),
        plan(Gaussian(0.01), 1, arms=3),
        plan(Laplace(0.003), 1, decoder=[[1, 0], [0, 1], [0.5, -1]]),
        plan(Gaussian(0.02), 1, decoder=[[1, 0], [0, 1], [0.5, -1], [-1, 0.3]]),
    ],
)
def test_the_predicted_work_is_about_the_actual_one(phase, monkeypatch):
    """The actual work is measured by the number of nodes."""
    nodes = []

    def counted(*arguments):
        found = rule(*arguments)
        nodes.append(found[0].size)
        return found

    rule = survivors.rule
    monkeypatch.setattr(survivors, "rule", counted)
    means = np.random.default_rng(0).uniform(size=(5, len(phase.pulled)))
    log_survival(phase, means)
    predicted = 5 * survivors.survival_work(phase, 1.0)
    assert sum(nodes) <= predicted <= 40 * sum(nodes)


@pytest.mark.parametrize(
    ("phase", "numbers"),
    [
        (plan(Laplace(0.01), 1, arms=2), 1),
        (plan(NoNoise(), 2, arms=4), 6),
    ],
)
def test_a_law_without_integrals_takes_one_number_for_each_probability(phase, numbers):
    assert survivors.survival_work(phase, 1.0) == numbers


def test_three_decoded_coordinates_are_refused():
    with pytest.raises(ValueError, match="at most 2 coordinates, but phase 1 decodes 3"):
        dpbai.exact_audit(dpbai.DPOD(np.eye(3), budget=15, epsilon=1.0))


@pytest.mark.parametrize("bound", [0, -1.0, math.nan, math.inf, "1", True])
def test_a_reward_bound_must_be_positive_and_finite(bound):
    with pytest.raises((ValueError, TypeError), match="reward_bound"):
        dpbai.exact_audit(dpbai.DPBAI(np.eye(2), budget=5, epsilon=1.0), reward_bound=bound)


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, "1"])
def test_delta_requires_a_non_negative_epsilon(epsilon):
    audit = dpbai.exact_audit(dpbai.DPBAI(np.eye(2), budget=5, epsilon=1.0))
    with pytest.raises((ValueError, TypeError), match="epsilon"):
        audit.delta_at(epsilon)
