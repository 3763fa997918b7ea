"""Early stopping, Lemma 4.3, its corollary and the change of measure, by listing every output."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest

from dpbai import pull_audit
from dpbai.audits import EarlyStopping, WinStay, log_ratio
from dpbai.audits.pull import bernoulli_law, output_law
from dpbai.lower import change_of_measure, sharp_change_of_measure


@dataclass(frozen=True)
class Arbitrary:
    """A random law for each history: a policy without structure and without privacy."""

    arms: int
    budget: int
    seed: int

    def next_arm(self, history):
        key = [
            self.seed,
            *(int(10 * value) for pull in history for value in (pull[0] + 1, pull[1])),
        ]
        return np.random.default_rng(key).dirichlet(np.ones(self.arms))

    recommend = next_arm


@dataclass(frozen=True)
class ExponentialMechanism:
    """Pull the arms in turn, and recommend arm i with odds exp(epsilon S_i / 2)."""

    arms: int
    budget: int
    epsilon: float

    def next_arm(self, history):
        return np.eye(self.arms)[len(history) % self.arms]

    def recommend(self, history):
        sums = [sum(x for arm, x in history if arm == i) for i in range(self.arms)]
        odds = np.exp(self.epsilon * np.array(sums) / 2)
        return odds / odds.sum()


PRIVATE = [WinStay(2, 4, 0.7), WinStay(3, 3, 1.5), ExponentialMechanism(2, 4, 0.9)]
ANY = [*PRIVATE, *(Arbitrary(2, 4, seed) for seed in range(4)), Arbitrary(3, 3, 9)]


def _binary_tables(policy):
    """Yield every table of zeros and ones, T rewards for each arm."""
    for values in itertools.product((0.0, 1.0), repeat=policy.arms * policy.budget):
        yield np.reshape(values, (policy.arms, policy.budget))


def _pulls(output, arm):
    return output[:-1].count(arm)


def _agree_below(first, second, n, arm):
    """Return whether two laws agree on every output with fewer than n pulls of the arm."""
    outputs = {o for o in (*first, *second) if _pulls(o, arm) < n}
    return all(first.get(o, 0) == pytest.approx(second.get(o, 0), abs=1e-14) for o in outputs)


@pytest.mark.parametrize("policy", ANY)
def test_the_probabilities_of_the_outputs_add_up_to_one(policy):
    for table in itertools.islice(_binary_tables(policy), 40):
        assert sum(output_law(policy, table).values()) == pytest.approx(1)
    assert sum(bernoulli_law(policy, [0.3] * policy.arms).values()) == pytest.approx(1)


@pytest.mark.parametrize("policy", [WinStay(2, 3, 0.7), Arbitrary(2, 3, 1)])
@pytest.mark.parametrize("stop", [None, (1, 0), (2, 1)])
def test_the_law_of_the_outputs_is_the_average_over_all_tables(policy, stop):
    policy = EarlyStopping(policy, *stop) if stop else policy
    means, average = [0.8, 0.35], {}
    for table in _binary_tables(policy):
        weight = math.prod(
            mean if reward else 1 - mean
            for mean, row in zip(means, table, strict=True)
            for reward in row
        )
        for output, probability in output_law(policy, table).items():
            average[output] = average.get(output, 0) + weight * probability
    assert bernoulli_law(policy, means) == pytest.approx(average)


@pytest.mark.parametrize("policy", ANY)
def test_early_stopping_changes_no_probability_of_outputs_with_fewer_than_n_pulls(policy):
    """Lemma 4.3: every event {recommendation in A and N < n} is a set of such outputs."""
    means = [0.8, 0.35, 0.5][: policy.arms]
    law = bernoulli_law(policy, means)
    for n in range(1, policy.budget + 1):
        for arm in range(policy.arms):
            stopped = bernoulli_law(EarlyStopping(policy, n, arm), means)
            assert _agree_below(law, stopped, n, arm)
            assert all(_pulls(output, arm) <= n for output in stopped)


def test_stopping_one_pull_early_breaks_the_lemma():
    class Early(EarlyStopping):
        def next_arm(self, history):
            if sum(arm == self.arm for arm, _ in history) >= self.n - 1:
                return np.eye(self.arms + 1)[-1]
            return self.policy.next_arm(history)

    policy, means = WinStay(2, 4, 0.7), [0.8, 0.35]
    law = bernoulli_law(policy, means)
    assert _agree_below(law, bernoulli_law(EarlyStopping(policy, 2, 0), means), 2, 0)
    assert not _agree_below(law, bernoulli_law(Early(policy, 2, 0), means), 2, 0)


def test_the_stopped_policy_reads_n_rewards_and_that_of_the_papers_text_more():
    """In the text of the paper it goes on pulling the arm, and needs more than n rewards."""

    class AsInText(EarlyStopping):
        def next_arm(self, history):
            if sum(arm == self.arm for arm, _ in history) >= self.n:
                return np.eye(self.arms)[self.arm]
            return self.policy.next_arm(history)

    policy = WinStay(2, 4, 0.7)
    stopped = EarlyStopping(policy, 2, 0)
    table = ((1.0, 1.0), (0.0,) * 4)
    assert (0, 0, 2, 2, 2) in output_law(stopped, table)
    with pytest.raises(ValueError, match="more than 2 rewards of arm 0"):
        output_law(AsInText(policy, 2, 0), table)


@pytest.mark.parametrize("policy", PRIVATE)
def test_the_example_policies_are_private(policy):
    assert 0 < pull_audit(policy).epsilon <= policy.epsilon + 1e-12


def test_win_stay_attains_its_epsilon_which_holds_for_all_rewards_in_the_unit_interval():
    policy = WinStay(2, 3, 1.2)
    assert pull_audit(policy).epsilon == pytest.approx(1.2)
    rewards = [0.0, 0.25, 0.6, 1.0]
    rest = ((0.0, 1.0, 0.5), (1.0, 0.3, 0.0))
    laws = [output_law(policy, ((x, *rest[0][1:]), rest[1])) for x in rewards]
    worst = max(log_ratio(p, q) for p in laws for q in laws)
    assert worst == pytest.approx(1.2)


@pytest.mark.parametrize("policy", PRIVATE)
def test_the_stopped_policy_is_as_private_as_the_policy(policy):
    """The corollary to Lemma 4.3."""
    loss = pull_audit(policy).epsilon
    for n in range(1, policy.budget):
        for arm in range(policy.arms):
            assert pull_audit(EarlyStopping(policy, n, arm)).epsilon <= loss + 1e-12


def test_policies_without_privacy_have_a_large_loss():
    assert pull_audit(WinStay(2, 3, math.inf)).epsilon == math.inf
    assert pull_audit(Arbitrary(2, 2, 0)).epsilon > 1


def test_an_output_that_is_impossible_under_one_law_has_an_infinite_ratio():
    sure, even = {"a": 1.0}, {"a": 0.5, "b": 0.5}
    assert log_ratio(even, sure) == math.inf
    assert log_ratio(sure, even) == math.log(2)


def _worst_change(policy, n, p, q):
    """Return the largest log ratio of output probabilities between means p and q of arm 0."""
    stopped = EarlyStopping(policy, n, 0)
    others = [0.4, 0.6][: policy.arms - 1]
    first, second = bernoulli_law(stopped, [p, *others]), bernoulli_law(stopped, [q, *others])
    return max(log_ratio(first, second), log_ratio(second, first))


MEANS = [0.0, 0.2, 0.5, 0.55, 1.0]


def _holds(factor, epsilons):
    makers = (lambda e: WinStay(2, 4, e), lambda e: ExponentialMechanism(2, 4, e))
    return all(
        _worst_change(make(epsilon), n, p, q)
        <= factor(epsilon=epsilon, pulls=n, distance=abs(p - q)) + 1e-9
        for make in makers
        for epsilon in epsilons
        for n in (1, 2)
        for p, q in itertools.combinations(MEANS, 2)
    )


def test_six_epsilon_n_tv_bounds_the_change_of_measure_up_to_epsilon_two_point_nine():
    assert _holds(change_of_measure, [0.05, 0.5, 1.0, 2.9])
    assert not _holds(lambda **of: change_of_measure(**of) / 6, [0.5])  # 1 instead of 6


def test_six_epsilon_n_tv_fails_for_large_epsilon():
    """The paper states it for every epsilon > 0. One pull of randomized response violates it.

    P(stay) is lie + p (1 - 2 lie): between means 0 and p the ratio is 1 + p (e^epsilon - 1).
    """
    policy, p = WinStay(2, 1, 6.0), 0.05
    worst = _worst_change(policy, 1, p, 0.0)
    assert worst == pytest.approx(math.log(1 + p * (math.exp(6.0) - 1)))
    assert worst > change_of_measure(epsilon=6.0, pulls=1, distance=p) + 1
    # It fails for some p if e^epsilon - 1 > 6 epsilon, and otherwise for none.
    for epsilon, fails in ((2.90, False), (2.94, True)):
        ratios = [math.log1p(p * math.expm1(epsilon)) / (6 * epsilon * p) for p in (1e-4, 0.1, 1)]
        assert (max(ratios) > 1) == fails


def test_the_sharp_factor_bounds_the_change_of_measure_for_every_epsilon_and_is_attained():
    assert _holds(sharp_change_of_measure, [0.05, 0.5, 1.0, 2.9, 6.0])
    assert not _holds(lambda **of: 0.99 * sharp_change_of_measure(**of), [1.0])
    for epsilon in (0.3, 1.0, 5.0):
        worst = _worst_change(WinStay(2, 1, epsilon), 1, 0.3, 0.0)
        sharp = sharp_change_of_measure(epsilon=epsilon, pulls=1, distance=0.3)
        assert worst == pytest.approx(sharp)


def test_the_factors_of_the_change_of_measure_in_numbers():
    assert change_of_measure(epsilon=0.5, pulls=10, distance=2 * 0.01) == pytest.approx(12 * 0.05)
    assert sharp_change_of_measure(epsilon=800.0, pulls=1, distance=0.5) == pytest.approx(
        800 + math.log(0.5)
    )
    assert sharp_change_of_measure(epsilon=1.0, pulls=3, distance=0) == 0
    for epsilon in (0.01, 0.5, 0.999, 1.0, 3.0):
        sharp = sharp_change_of_measure(epsilon=epsilon, pulls=7, distance=0.2)
        assert sharp == pytest.approx(7 * math.log(1 + 0.2 * (math.exp(epsilon) - 1)))


def test_laws_of_too_many_histories_are_refused_before_enumeration(monkeypatch):
    """`WinStay(3, 24, 1.0)` has 2^24 outputs."""
    with monkeypatch.context() as patch:
        patch.setattr("dpbai.audits.pull.MOST_HISTORIES", 2**9)
        assert len(output_law(WinStay(3, 9, 1.0), np.zeros((3, 9)))) == 2**9
        for law in (
            lambda: output_law(WinStay(3, 24, 1.0), np.zeros((3, 24))),
            lambda: bernoulli_law(WinStay(2, 24, 1.0), [0.5, 0.4]),
        ):
            with pytest.raises(ValueError, match=r"at most 512 histories, .* a smaller budget"):
                law()


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="arm must be one of"):
        EarlyStopping(WinStay(2, 3, 1.0), 1, 2)
    with pytest.raises(ValueError, match="n must be at least 1"):
        EarlyStopping(WinStay(2, 3, 1.0), 0, 1)
    with pytest.raises(ValueError, match=r"rewards in \[0, 1\]"):
        output_law(WinStay(2, 3, 1.0), ((1.5,) * 3, (0.0,) * 3))
    with pytest.raises(ValueError, match="means must be 2 numbers"):
        bernoulli_law(WinStay(2, 3, 1.0), [0.5])
    with pytest.raises(ValueError, match="epsilon must be positive and finite"):
        change_of_measure(epsilon=math.inf, pulls=1, distance=0.1)
    with pytest.raises(ValueError, match="distance"):
        change_of_measure(epsilon=1.0, pulls=1, distance=1.1)
