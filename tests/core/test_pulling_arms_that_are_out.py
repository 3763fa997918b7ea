"""In every engine, a phase may pull an eliminated arm to compare the active ones."""

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from oracles import FALSE_ALARM
from scipy import stats

import dpbai
from dpbai.audits import PullByPull, pull_audit, run_on_table
from dpbai.phase import Phase

EPSILON = 0.8
FEATURES = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]])
MEANS = FEATURES @ [0.7, 0.4]


@dataclass(frozen=True)
class Outside:
    """Keep two of three arms; then release a reward of the third, minus two of another."""

    features, budget = FEATURES, 6

    def phase(self, index, active):
        noise = dpbai.Laplace(1 / EPSILON)
        if index == 1:
            return Phase(1, active, active, (1, 1, 1), noise, 2)
        (out,) = {0, 1, 2} - set(active)
        release, decoder = np.array([[1.0, -2.0]]), np.array([[-1.0], [1.0]])
        return Phase(2, active, (out, active[0]), (1, 2), noise, 1, release, decoder)


def plain_loop(draw, rng):
    """Run the policy reward by reward."""
    first = [draw(arm) + rng.laplace(scale=1 / EPSILON) for arm in range(3)]
    out = int(np.argmin(first))
    low, high = sorted({0, 1, 2} - {out})
    lead = draw(out) - draw(low) - draw(low) + rng.laplace(scale=1 / EPSILON)
    return high if lead > 0 else low


def test_simulations_have_the_frequencies_of_a_plain_loop():
    rng, runs = np.random.default_rng(0), 6000
    instance = dpbai.Instance(FEATURES, [0.7, 0.4], rewards=dpbai.Bernoulli)
    result = dpbai.simulate(Outside(), instance, trials=30_000, seed=1)
    answers = [plain_loop(lambda arm: float(rng.random() < MEANS[arm]), rng) for _ in range(runs)]
    table = [result.recommended, np.bincount(answers, minlength=3)]
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM
    assert (result.pulls, result.epsilon) == (6, pytest.approx(EPSILON))


def test_error_bounds_and_path_bounds_hold():
    instance = dpbai.Instance(FEATURES, [0.5, 0.3])
    errors = dpbai.simulate(Outside(), instance, trials=30_000).success_rate
    assert 1 - errors < dpbai.error_bounds(Outside(), instance).high
    assert 1 - errors < dpbai.beyond.path_bound(Outside(), instance)


@pytest.mark.parametrize(
    ("options", "epsilon"),
    [({}, 1), ({"group": 2}, 2), ({"neighbours": "pull index"}, 3), ({"reward_bound": 1.5}, 1.5)],
)
def test_the_certificate_accounts_for_rewards_of_arms_that_are_out(options, epsilon):
    """A reward of either arm moves the second release by 1, as one of the first phase does."""
    certificate = dpbai.certificate(Outside(), **options)
    assert certificate.losses == pytest.approx((epsilon * EPSILON,) * 2)
    assert certificate.complete

    class Costly(Outside):
        """The eliminated arm counts three times."""

        def phase(self, index, active):
            phase = super().phase(index, active)
            return replace(phase, release_matrix=phase.release * [3, 1]) if index == 2 else phase

    assert dpbai.certificate(Costly(), **options).epsilon == pytest.approx(3 * epsilon * EPSILON)


def test_the_exact_audit_is_what_runs_do_and_stays_below_the_certificate():
    audit = dpbai.exact_audit(Outside())
    assert 0.5 * EPSILON < audit.epsilon <= EPSILON + 1e-9
    tables = [audit.grid.table(at) for at in range(audit.grid.size)]
    for table in tables[:: len(tables) // 3]:
        law = {
            output: math.exp(logs[tables.index(table)])
            for output, logs in zip(audit.outputs, audit.log_probabilities, strict=True)
        }
        runs = run_on_table(Outside(), table, 20_000, np.random.default_rng(2))
        for output, chance in law.items():
            assert stats.binomtest(runs[output], 20_000, chance).pvalue > FALSE_ALARM
        for low, high in [(0, 1), (0, 2), (1, 2)]:
            out = 3 - low - high
            # The second reward of the eliminated arm, and the next two of the other.
            lead = table[out][1] - sum(table[low][1:3])
            both = law[((low, high), (low,))] + law[((low, high), (high,))]
            chance = stats.laplace.cdf(lead, scale=1 / EPSILON)
            assert law[((low, high), (high,))] / both == pytest.approx(chance, rel=1e-9)
    bound = dpbai.monte_carlo_audit(Outside(), trials=20_000, level=1 - 1e-6)
    assert bound.epsilon <= EPSILON


def test_pull_by_pull_it_is_private_too():
    class Short(Outside):
        """One pull in the first phase, so that all tables can be enumerated."""

        budget = 3

        def phase(self, index, active):
            if index == 1:
                rows = np.array([[1.0], [0.0], [-1.0]])
                noise = dpbai.Laplace(1 / EPSILON)
                return Phase(1, active, (0,), (1,), noise, 2, None, rows)
            (out,) = {0, 1, 2} - set(active)
            noise, rows = dpbai.Laplace(0.5 / EPSILON), np.array([[1.0], [-1.0]])
            return Phase(2, active, (out,), (2,), noise, 1, None, rows)

    policy = PullByPull(Short())
    audit = pull_audit(policy)
    assert dpbai.certificate(Short()).epsilon == pytest.approx(EPSILON)
    assert 0.5 * EPSILON < audit.epsilon <= EPSILON + 1e-9
    # Keeps arms 0 and 1 if the first release is positive; then arm 2 is pulled.
    for reward in (0.0, 1.0):
        law = policy.next_arm(((0, reward),))
        assert law[2] == pytest.approx(stats.laplace.cdf(reward, scale=1 / EPSILON))
        assert law[0] == pytest.approx(1 - law[2])


@pytest.mark.filterwarnings("ignore::dpbai.ReleaseWarning")
def test_a_session_asks_for_rewards_of_the_arm_that_is_out(tmp_path):
    answers = set()
    for seed, rewards in product(range(4), ({"a": 1, "b": 0, "c": 0}, {"a": 0, "b": 1, "c": 1})):
        path = tmp_path / f"{seed}{rewards['a']}.json"
        session = dpbai.Session(
            Outside(), noise=dpbai.NumpyNoise(seed), path=path, labels=list("abc")
        )
        session.record({label: [rewards[label]] for label in "abc"})
        (first,) = session.released
        low, high = first.survivors
        (out,) = set("abc") - {low, high}
        assert session.requests == {out: 1, low: 2}
        session.record({out: [rewards[out]]})
        session = dpbai.Session.resume(path, Outside(), noise=dpbai.NumpyNoise(seed))
        session.record({low: [rewards[low]] * 2})
        assert session.recommendation in {low, high}
        assert session.released[1].pulled == (out, low)
        assert session.certificate.epsilon == pytest.approx(EPSILON)
        answers.add(session.recommendation)
    assert len(answers) > 1


@pytest.mark.filterwarnings("ignore::dpbai.ReleaseWarning")
def test_an_arm_that_is_out_and_pulled_can_be_withdrawn():
    session = dpbai.Session(Outside(), noise=dpbai.NumpyNoise(0))
    session.record({arm: [1] for arm in range(3)})
    (out,) = {0, 1, 2} - set(session.released[0].survivors)
    session.withdraw(out)
    (low,) = session.requests
    with pytest.raises(dpbai.SessionError, match="at least two arms must remain in play"):
        session.withdraw(low)
    session.record({low: [1, 0]})
    assert session.recommendation in session.released[0].survivors
    assert f"arm {out} was withdrawn with 0 of 1 rewards" in str(session.certificate)
    assert session.certificate.epsilon == pytest.approx(EPSILON)


def test_an_arm_that_does_not_exist_is_rejected():
    class Beyond(Outside):
        def phase(self, index, active):
            first = super().phase(1, (0, 1, 2))
            return Phase(index, active, (0, 1, 3), (1, 1, 1), first.noise, 2)

    with pytest.raises(ValueError, match=r"policy must pull arms in 0\.\.2, but phase 1 pulls"):
        dpbai.certificate(Beyond())


def test_an_interval_of_an_arm_that_was_not_pulled_itself_is_not_given():
    """The second release is a difference, although its decoder is the identity."""

    class Swapped(Outside):
        """Estimates of two arms that are means of two others, in any order."""

        def phase(self, index, active):
            phase = super().phase(1, (0, 1, 2))
            if index == 1:
                return phase
            (out,) = {0, 1, 2} - set(active)
            return Phase(2, active, (out, active[0]), (1, 1), phase.noise, 1)

    with pytest.warns(dpbai.ReleaseWarning):
        session = dpbai.Session(Swapped(), noise=dpbai.NumpyNoise(0))
    while session.requests:
        session.record({arm: [0] * n for arm, n in session.requests.items()})
    with pytest.raises(dpbai.SessionError, match="do not determine the mean"):
        session.interval()
