"""Bad input: an error that names the argument and the rule, and never anything clipped."""

import math
import re
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import dpbai
from dpbai import (
    DPBAI,
    DPOD,
    Baseline,
    DPBAIGauss,
    DPDesign,
    DPHalving,
    Instance,
    ODLinBAI,
    Schedule,
    _check,
)

X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
dpbai_ = partial(DPBAI, X)
POLICIES = {
    "DP-BAI": partial(DPBAI, epsilon=1.0),
    "Baseline": partial(Baseline, epsilon=1.0),
    "DP-BAI-Gauss": partial(DPBAIGauss, epsilon=1.0, delta=1e-5),
    "DPDesign": partial(DPDesign, epsilon=1.0),
    "OD-LinBAI": ODLinBAI,
    "DP-Halving": partial(DPHalving, epsilon=1.0),
    "DP-OD": partial(DPOD, epsilon=1.0),
}

BAD_FEATURES = [
    ([1.0, 2.0], ValueError, "features must be 2-D"),
    (np.ones((2, 2, 2)), ValueError, "features must be 2-D"),
    (np.empty((0, 2)), ValueError, "features must have at least 2 rows"),
    (np.empty((3, 0)), ValueError, "features must have at least 2 rows"),
    ([[1.0, 2.0]], ValueError, "features must have at least 2 rows"),
    ([[1.0, math.nan], [0, 1]], ValueError, r"features must be finite, got nan at \[0, 1\]"),
    ([[1.0, 0], [math.inf, 1]], ValueError, r"features must be finite, got inf at \[1, 0\]"),
    ([["a", "b"], ["c", "d"]], TypeError, "features must hold real numbers"),
    ([["1", "2"], ["3", "4"]], TypeError, "features must hold real numbers"),
    ([[1j, 0], [0, 1]], TypeError, "features must hold real numbers"),
    ([[True, False], [False, True]], TypeError, "features must hold real numbers"),
]
BAD_EPSILONS = [
    (0, ValueError, "epsilon must be positive, got 0"),
    (-1.0, ValueError, "epsilon must be positive, got -1"),
    (-math.inf, ValueError, "epsilon must be positive, got -inf"),
    (math.nan, ValueError, "epsilon must not be NaN"),
    (1e-320, ValueError, r"epsilon, .* must lie in \[1e-300, 1e300\], got 1e-320"),
    (1e301, ValueError, r"epsilon, .* must lie in \[1e-300, 1e300\], got 1e\+301"),
    (True, TypeError, "epsilon must be a real number"),
    ("1", TypeError, "epsilon must be a real number"),
    (None, TypeError, "epsilon must be a real number"),
    (1j, TypeError, "epsilon must be a real number"),
]
BAD_BUDGETS = [
    (0, ValueError, "budget must be at least 1, got 0"),
    (-5, ValueError, "budget must be at least 1, got -5"),
    (1, ValueError, r"budget must be at least \d+ to pull each planned arm once"),
    (100.0, TypeError, "budget must be an integer, got 100.0"),
    (math.nan, TypeError, "budget must be an integer"),
    ("100", TypeError, "budget must be an integer"),
    (True, TypeError, "budget must be an integer"),
    (2**53 + 1, ValueError, "budget must be at most 9007199254740992"),
]


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize(("features", "error", "match"), BAD_FEATURES)
def test_bad_features(name, features, error, match):
    with pytest.raises(error, match=match):
        POLICIES[name](features, budget=100)
    with pytest.raises(error, match=match):
        Instance(features, [0.1, 0.2])


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize(("budget", "error", "match"), BAD_BUDGETS)
def test_bad_budgets(name, budget, error, match):
    with pytest.raises(error, match=match):
        POLICIES[name](X, budget=budget)


@pytest.mark.parametrize("name", ["DP-BAI", "Baseline", "DP-BAI-Gauss", "DP-OD"])
@pytest.mark.parametrize(("epsilon", "error", "match"), BAD_EPSILONS)
def test_bad_epsilons(name, epsilon, error, match):
    with pytest.raises(error, match=match):
        POLICIES[name](X, budget=100, epsilon=epsilon)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-8, 1e8, 1e300])
@pytest.mark.parametrize("name", ["DP-BAI", "Baseline", "DP-BAI-Gauss", "DP-OD"])
def test_extreme_epsilons_give_a_finite_right_scale(name, epsilon):
    phase = POLICIES[name](X, budget=100, epsilon=epsilon).phase(1, range(3))
    assert 0 < phase.noise.standard_deviation < math.inf
    if name != "DP-OD":
        assert phase.losses == pytest.approx((epsilon,) * len(phase.pulled), rel=1e-6)


@pytest.mark.parametrize(
    ("delta", "error", "match"),
    [
        (0, ValueError, "delta must lie strictly between 0 and 1, got 0"),
        (1, ValueError, "delta must lie strictly between 0 and 1, got 1"),
        (-0.1, ValueError, "delta must lie strictly between 0 and 1, got -0.1"),
        (math.nan, ValueError, "delta must not be NaN"),
        ("0.1", TypeError, "delta must be a real number"),
    ],
)
def test_bad_deltas(delta, error, match):
    with pytest.raises(error, match=match):
        DPBAIGauss(X, budget=100, epsilon=1.0, delta=delta)


def test_a_tiny_delta_has_a_finite_scale():
    """Sigma for epsilon = 1, delta = 1e-300 is 36.9."""
    policy = DPBAIGauss(X, budget=100, epsilon=1.0, delta=1e-300)
    assert policy.sigma == pytest.approx(36.9, abs=0.05)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: dpbai_(budget=100, epsilon=1.0, convention="paper"), "convention must be one of"),
        (lambda: dpbai_(budget=100, epsilon=1.0, budget_rule="lax"), "budget_rule must be one of"),
        (
            lambda: DPBAIGauss(X, budget=9, epsilon=1.0, delta=0.1, calibration="new"),
            "calibration must be one of 'classic', 'analytic', got 'new'",
        ),
        (lambda: DPOD(X, budget=100, epsilon=1.0, norm="l3"), "norm must be one of 'l2', 'l1'"),
        (lambda: DPOD(X, budget=100, epsilon=1.0, norm=["l2"]), "norm must be one of"),
        (lambda: dpbai.two_armed(means="real"), "means must be one of 'printed', 'in-range'"),
    ],
)
def test_bad_choices_list_the_good_ones(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: DPBAI(X, 100, 1.0),
        lambda: ODLinBAI(X, 100),
        lambda: DPBAIGauss(X, 100, 1.0, 0.1),
    ],
)
def test_arguments_that_a_mix_up_would_swap_silently_have_names(call):
    with pytest.raises(TypeError, match="positional argument"):
        call()


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize(
    ("index", "active", "match"),
    [
        (0, (0, 1, 2), "index must be at least 1"),
        (9, (0,), r"index must be a phase in 1..\d, got 9"),
        (1, (0, 1), "active must hold 3 arms in phase 1, got 2"),
        (1, (), "active must hold at least one arm"),
        (1, (0, 2, 1), "in increasing order"),
        (1, (0, 1, 1), "distinct arms"),
        (1, (0, 1, 3), "distinct arms in 0..2"),
        (1, (-1, 0, 1), "each of active must be at least 0"),
    ],
)
def test_bad_phases(name, index, active, match):
    with pytest.raises(ValueError, match=match):
        POLICIES[name](X, budget=100).phase(index, active)


@pytest.mark.parametrize(
    ("theta", "error", "match"),
    [
        ([0.1], ValueError, r"theta must have shape \(2,\), got \(1,\)"),
        ([[0.1, 0.2]], ValueError, "theta must be 1-D"),
        ([0.1, math.nan], ValueError, "theta must be finite"),
        (["0.1", "0.2"], TypeError, "theta must hold real numbers"),
        ([0.1, 0.2j], TypeError, "theta must hold real numbers"),
        ([0.3, 0.4], ValueError, r"rewards of arm 2 \(mean 0.7\) must lie in \[0, 1\]"),
        ([0.3, -0.1], ValueError, "theta gives arm 1 a mean that its reward law does not allow"),
        ([0.2, 0.0], ValueError, r"unique, but arms \[0, 2\] share"),
    ],
)
def test_bad_thetas(theta, error, match):
    with pytest.raises(error, match=match):
        Instance(X, theta)


@pytest.mark.parametrize(
    ("rewards", "match"),
    [
        ([dpbai.Bernoulli(0.1)], "rewards must list one law for each of 3 arms, got 1"),
        (
            [dpbai.Empirical([0.1]), dpbai.Empirical([0.5]), dpbai.Empirical([-1, 1])],
            r"rewards of arm 2 \(mean 0\) must lie in \[0, 1\]",
        ),
        ([dpbai.Uniform(0.1), dpbai.Uniform(0.6), dpbai.Uniform(0.2)], "rewards of arm 1"),
        ([dpbai.Bernoulli(0.1)] * 3, r"unique, but arms \[0, 1, 2\]"),
    ],
)
def test_bad_reward_laws(rewards, match):
    with pytest.raises(ValueError, match=match):
        Instance(X, rewards=rewards)


def test_laws_must_have_the_means_that_theta_gives():
    laws = [dpbai.Bernoulli(mean) for mean in (0.1, 0.2, 0.4)]
    with pytest.raises(ValueError, match="rewards must have the means features @ theta"):
        Instance(X, [0.1, 0.2], laws)
    with pytest.raises(ValueError, match="theta must be given"):
        Instance(X)


def test_rewards_beyond_one_need_the_explicit_opt_out():
    assert Instance(X, [0.3, 0.4], bounded=False).reward_bound == pytest.approx(1.4)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: dpbai.Uniform(-0.1), ValueError, "mean of Uniform must be finite and at least 0"),
        (lambda: dpbai.Uniform(math.inf), ValueError, "mean of Uniform must be finite"),
        (lambda: dpbai.Uniform(math.nan), ValueError, "mean of Uniform must not be NaN"),
        (lambda: dpbai.Bernoulli(1.1), ValueError, r"mean of Bernoulli must lie in \[0, 1\]"),
        (lambda: dpbai.Bernoulli("0.5"), TypeError, "mean of Bernoulli must be a real number"),
        (lambda: dpbai.Beta(0.0), ValueError, "mean of Beta must lie strictly"),
        (lambda: dpbai.Beta(0.5, concentration=0), ValueError, "concentration of Beta must be pos"),
        (lambda: dpbai.Empirical([]), ValueError, "values must not be empty"),
        (lambda: dpbai.Empirical([[0.5]]), ValueError, "values must be 1-D"),
        (lambda: dpbai.Empirical([0.5, math.nan]), ValueError, "values must be finite"),
        (lambda: dpbai.Empirical(["0.5"]), TypeError, "values must hold real numbers"),
        (lambda: dpbai.Empirical([0.5], weights=[1, 2]), ValueError, "weights must have shape"),
        (lambda: dpbai.Empirical([0.5], weights=[-1]), ValueError, "weights must be at least 0"),
        (lambda: dpbai.Empirical([0.5], weights=[0]), ValueError, "weights must have a positive"),
        (lambda: dpbai.Laplace(0), ValueError, "scale of Laplace must be positive and finite"),
        (lambda: dpbai.Laplace(math.inf), ValueError, "scale of Laplace must be positive"),
        (lambda: dpbai.Gaussian(0), ValueError, "sigma of Gaussian must be positive"),
    ],
)
def test_bad_laws(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_messages_do_not_repeat_private_rewards():
    """`Empirical` may hold a data set; its errors, and its representation in others, tell none."""
    secret = 0.123456789
    for values, weights in (([secret, math.nan], None), ([secret, secret], [1, -2])):
        with pytest.raises(ValueError, match="must be") as error:
            dpbai.Empirical(values, weights)
        assert "1234" not in str(error.value)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: dpbai.synthetic(np.zeros(26)), r"omega must have shape \(27,\), got \(26,\)"),
        (lambda: dpbai.synthetic(np.full(27, 0.81)), r"omega must lie in \[0, 0.8\]"),
        (lambda: dpbai.synthetic(np.full(27, -0.01)), r"omega must lie in \[0, 0.8\]"),
        (lambda: dpbai.synthetic(np.full(27, math.nan)), "omega must be finite"),
        (lambda: dpbai.two_armed(x=0), r"x must lie in \[1e-300, 1e\+300\], got 0"),
        (lambda: dpbai.two_armed(y=math.inf), r"y must lie in \[1e-300, 1e\+300\], got inf"),
        (lambda: dpbai.two_armed(gap=0), r"gap must lie in \(0, 0.5\], got 0"),
        (lambda: dpbai.two_armed(gap=0.51), r"gap must lie in \(0, 0.5\], got 0.51"),
    ],
)
def test_bad_arguments_of_the_papers_instances(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.parametrize("length", [1e-300, 1e300, Fraction(1, 3), 5, np.float32(2.5), 10**300])
def test_the_two_arms_may_have_any_real_length(length):
    instance = dpbai.two_armed(x=length, y=length)
    assert instance.means == pytest.approx([0.55, 0.5], rel=1e-6)
    assert instance.features[0, 0] == float(length)


@pytest.mark.parametrize("name", ["x", "y", "gap"])
@pytest.mark.parametrize(
    ("value", "error"),
    [(1e308, ValueError), (5e-324, ValueError), (10**400, ValueError),
     (Fraction(10**400), ValueError),
     (True, TypeError), ("1", TypeError), (np.array(1.0), TypeError), (None, TypeError)],
)  # fmt: skip
def test_lengths_of_the_two_arms_that_are_none_are_named(name, value, error):
    if (name, value) == ("gap", 5e-324):
        return
    with pytest.raises(error, match=f"^{name} must"):
        dpbai.two_armed(**{name: value})


@pytest.mark.parametrize(
    "rewards", [None, 0.5, [0.3, 0.2, 0.1], "Uniform", len, {"a": 1}, [None] * 3]
)
def test_rewards_that_are_no_laws_are_named(rewards):
    with pytest.raises(TypeError, match="rewards"):
        Instance(X, [0.1, 0.2], rewards)


INSTANCE = Instance(X, [0.1, 0.2])


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"trials": 0}, ValueError, "trials must be at least 1, got 0"),
        ({"trials": 10.0}, TypeError, "trials must be an integer"),
        ({"seed": -1}, ValueError, "seed must be a non-negative int"),
        ({"seed": 1.0}, TypeError, "seed must be a non-negative int"),
        ({"seed": None}, TypeError, "seed must be a non-negative int"),
        ({"seed": True}, TypeError, "seed must be a non-negative int"),
    ],
)
def test_bad_arguments_of_simulate(arguments, error, match):
    policy = dpbai_(budget=100, epsilon=1.0)
    with pytest.raises(error, match=match):
        dpbai.simulate(policy, INSTANCE, **({"trials": 10} | arguments))


def test_simulate_needs_as_many_arms_in_policy_and_instance():
    policy = DPBAI(X[:2], budget=100, epsilon=1.0)
    with pytest.raises(ValueError, match="same number of arms, got 2 and 3"):
        dpbai.simulate(policy, INSTANCE, trials=1)


@pytest.mark.parametrize("level", [0, 1, -1, 1.5, math.nan])
def test_bad_levels(level):
    result = dpbai.simulate(dpbai_(budget=100, epsilon=1.0), INSTANCE, trials=10)
    with pytest.raises(ValueError, match="level must"):
        result.interval(level)
    with pytest.raises(ValueError, match="method must be one of 'wilson'"):
        result.interval(method="normal")


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: Schedule(1, 2, 100), "arms must be at least 2, got 1"),
        (lambda: Schedule(5, 0, 100), "dimension must be at least 1, got 0"),
        (lambda: Schedule(5, 2, 2), "budget must be at least"),
        (lambda: dpbai.max_det([[math.nan, 1.0]]), r"vectors must be finite, got nan at \[0, 0\]"),
        (lambda: dpbai.max_det(np.empty((0, 2))), "vectors must have at least 1 rows"),
        (lambda: dpbai.max_det(X, max_subsets=-1), "max_subsets must be at least 0"),
        (lambda: dpbai.g_optimal_design([[math.inf]]), "vectors must be finite"),
        (
            lambda: dpbai.g_optimal_design(X, tolerance=0),
            r"tolerance must lie in \[1e-12, inf\)",
        ),
        (lambda: dpbai.g_optimal_design(X, tolerance=math.nan), "tolerance must not be NaN"),
    ],
)
def test_bad_arguments_of_the_parts(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.parametrize("name", POLICIES)
def test_the_least_budget_in_the_message_is_a_number_that_works(name):
    with pytest.raises(ValueError, match="budget must be at least") as error:
        POLICIES[name](X, budget=1)
    least = int(re.search(r"at least (\d+) ", str(error.value)).group(1))
    phase = POLICIES[name](X, budget=least).phase(1, range(3))
    assert 1 <= phase.cost <= least


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint64, np.int64])
@pytest.mark.parametrize("maker", [dpbai.DPBAI, dpbai.Baseline, dpbai.ODLinBAI])
def test_a_budget_of_any_integer_type_is_that_number(maker, kind):
    features = np.random.default_rng(0).normal(size=(20, 6))
    private = {} if maker is dpbai.ODLinBAI else {"epsilon": 1.0}
    own = maker(features, budget=100, **private).phase(1, range(20)).pulls
    given = maker(features, budget=kind(100), **private).phase(1, range(20)).pulls
    assert given == own
    assert {type(pulls) for pulls in given} == {int}


def test_masked_features_are_refused():
    masked = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], mask=[[1, 0], [0, 0]])
    with pytest.raises(TypeError, match="features must not be a masked array"):
        dpbai.DPBAI(masked, budget=400, epsilon=0.5)


def test_reward_bound_is_the_largest_change_of_a_reward():
    laws = [dpbai.Empirical([-5.0, 1.0]), dpbai.Empirical([-9.0, 1.0])]
    assert dpbai.Instance([[1.0], [0.0]], rewards=laws, bounded=False).reward_bound == 10
    assert dpbai.two_armed().reward_bound == pytest.approx(1.1)


def test_iterators_make_the_same_study_as_lists():
    instance = dpbai.synthetic()
    policies = {"a": dpbai.DPBAI, "b": dpbai.Baseline}
    lists = dpbai.study(policies, instance, budgets=[100, 200], epsilons=[0.5, 1], trials=10)
    iterators = dpbai.study(
        policies, instance, budgets=iter([100, 200]), epsilons=iter([0.5, 1]), trials=10
    )
    assert iterators.equals(lists)


def test_a_seed_sequence_can_be_used_again():
    seed = np.random.SeedSequence(1)
    grid = {"budgets": [100], "epsilons": [0.5], "trials": 1000, "seed": seed}
    first = dpbai.study({"a": dpbai.DPBAI}, dpbai.synthetic(), **grid)
    assert dpbai.study({"a": dpbai.DPBAI}, dpbai.synthetic(), **grid).equals(first)
    assert seed.n_children_spawned == 0


def test_a_seed_sequence_counts_with_all_that_it_is_made_of():
    def found(**made):
        seed = np.random.SeedSequence(3, **made)
        policy = dpbai.DPBAI(np.eye(9), budget=200, epsilon=1.0)
        nine = dpbai.Instance(np.eye(9), [0.5] + [0.4] * 8)
        result = dpbai.simulate(policy, nine, trials=2000, seed=seed)
        return tuple(result.recommended.tolist())

    used = np.random.SeedSequence(3)
    used.spawn(2)
    assert len({found(), found(spawn_key=(1,)), found(pool_size=8)}) == 3
    (third,) = dpbai._check.seed_sequence(used).spawn(1)
    assert third.spawn_key == (2,)


@pytest.mark.parametrize("epsilon", [1e200, math.inf])
def test_next_to_no_delta_is_left_at_huge_epsilon(epsilon):
    policy = dpbai.DPBAIGauss(np.eye(2), budget=100, epsilon=0.5, delta=1e-5)
    assert dpbai.certificate(policy).delta_at(epsilon) <= 5e-324


def test_malformed_sums_are_refused_without_being_told():
    session = dpbai.Session(dpbai.DPBAI(np.eye(2), budget=10, epsilon=1.0))
    for secret in ("0.7654321", 0.7654321, None, (0.7654321, 1, 1)):
        with pytest.raises(TypeError, match=r"sums must be pairs \(total, count\)"):
            session.record_sums({0: secret})
    secret = np.array([(0.5,)], dtype=[("0.7654321", float)])
    with pytest.raises(TypeError, match="doubles") as refused:
        session.record({0: secret})
    assert "7654321" not in str(refused.value)


@pytest.mark.parametrize(
    ("interval", "inside", "outside"),
    [
        ("[0, 1]", (0, 0.5, 1), (-5e-324, math.nextafter(1, 2), math.inf)),
        ("[0, 1)", (0, 0.5, math.nextafter(1, 0)), (-5e-324, 1)),
        ("(0, 1]", (5e-324, 1), (0, -0.0, math.nextafter(1, 2))),
        ("(0, 1)", (5e-324, math.nextafter(1, 0)), (0, 1, -math.inf)),
        ("(0, inf)", (5e-324, 1e308), (0, math.inf, -1)),
        ("[0, inf]", (0, -0.0, math.inf), (-5e-324, -math.inf)),
        ("[-inf, inf]", (-math.inf, 0, math.inf), ()),
    ],
)
def test_a_number_is_taken_where_its_interval_says(interval, inside, outside):
    for value in inside:
        assert _check.number(value, "x", interval) == value
    for value in outside:
        with pytest.raises(ValueError, match=rf"^x must .*, got {re.escape(str(float(value)))}$"):
            _check.number(value, "x", interval)
    with pytest.raises(ValueError, match="x must not be NaN"):
        _check.number(math.nan, "x", interval)
