"""Policies that remember: their phases decode all releases so far, in every engine."""

import math
from collections import Counter
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from oracles import FALSE_ALARM
from remembering import Remembering, TwoCoordinates, plain_loop
from scipy import integrate, stats

import dpbai
from dpbai.audits import PullByPull, log_survival, run_on_table
from dpbai.field.session import NumpyNoise
from dpbai.noise import NoNoise
from dpbai.phase import Phase

FOUR, THREE = np.eye(4), np.eye(3)
MEANS = (0.45, 0.4, 0.35, 0.2)
NOISES = {"epsilon": [(1.5, False), (1.5, True), (math.inf, False)]}


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("epsilon", [2.0, math.inf])
@pytest.mark.parametrize("law", [dpbai.Uniform, dpbai.Bernoulli])
def test_simulations_have_the_frequencies_of_a_plain_loop(law, epsilon):
    """Without noise, averages of 2 and 3 rewards of 0 and 1 often tie, up to rounding."""
    instance = dpbai.Instance(FOUR, MEANS, rewards=law)
    policy = Remembering(FOUR, budget=27, epsilon=epsilon)
    trials, runs, random = 30_000, 3000, rng()

    def draw(arm):
        if law is dpbai.Uniform:
            return random.uniform(0, 2 * MEANS[arm])
        return float(random.random() < MEANS[arm])

    result = dpbai.simulate(policy, instance, trials=trials, seed=1)
    answers = [plain_loop(epsilon, draw, random, 4)[-1][0] for _ in range(runs)]
    table = [result.recommended, np.bincount(answers, minlength=4)]
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM
    assert result.pulls <= 27
    assert result.epsilon == pytest.approx(epsilon)


def test_a_policy_that_forgets_differs_from_one_that_remembers():
    """The check above can fail: the last phase alone has other results."""
    instance = dpbai.Instance(FOUR, MEANS)
    policy = Remembering(FOUR, budget=27, epsilon=2.0)

    class Forgetting(Remembering):
        def phase(self, index, active, past=()):
            phase = super().phase(index, active, past)
            decoder = phase.decoder_matrix * (np.arange(phase.decoder.shape[1]) >= phase.remembered)
            return replace(phase, decoder_matrix=decoder)

    forgetting = Forgetting(FOUR, budget=27, epsilon=2.0)
    rates = [dpbai.simulate(p, instance, trials=30_000).recommended for p in (policy, forgetting)]
    assert stats.chi2_contingency(rates).pvalue < 1e-6


def test_many_trials_in_parts_and_blocks_are_the_same_trials(monkeypatch):
    instance = dpbai.Instance(FOUR, MEANS, rewards=dpbai.Bernoulli)
    policy = Remembering(FOUR, budget=27, epsilon=2.0)
    whole = dpbai.simulate(policy, instance, trials=30_000, seed=2).recommended
    monkeypatch.setattr(import_module("dpbai.simulate"), "_BLOCK_ENTRIES", 500)
    parted = dpbai.simulate(policy, instance, trials=30_000, seed=3).recommended
    assert stats.chi2_contingency([whole, parted]).pvalue > FALSE_ALARM


# Privacy


def test_the_certificate_looks_at_every_path():
    """The loss of a run is the largest loss of a release, whatever is decoded from it."""

    class Costly(Remembering):
        """Half the noise if arm 3 and then arm 1 were eliminated."""

        def phase(self, index, active, past=()):
            phase = super().phase(index, active, past)
            path = [set(p.active) for p in past]
            if len(path) == 2 and path[1] == {0, 1, 2} and active == (0, 2):
                return replace(phase, noise=dpbai.Laplace(phase.noise.scale / 2))
            return phase

    fair = dpbai.certificate(Remembering(FOUR, budget=27, epsilon=0.7))
    assert fair.losses == pytest.approx((0.7, 0.7, 0.7))
    assert fair.complete
    costly = dpbai.certificate(Costly(FOUR, budget=27, epsilon=0.7))
    assert costly.losses == pytest.approx((0.7, 0.7, 1.4))
    assert not dpbai.certificate(Costly(FOUR, budget=27, epsilon=0.7), limit=3).complete


def law_on(audit, table):
    """Return the law of the transcript on one table of the grid."""
    (at,) = (k for k in range(audit.grid.size) if audit.grid.table(k) == table)
    return {
        output: math.exp(values[at])
        for output, values in zip(audit.outputs, audit.log_probabilities, strict=True)
    }


@pytest.mark.parametrize(("epsilon", "gaussian"), NOISES["epsilon"])
def test_the_audit_of_two_coordinates_is_what_runs_do(epsilon, gaussian):
    policy = TwoCoordinates(THREE, budget=5, epsilon=epsilon, gaussian=gaussian)
    audit = dpbai.exact_audit(policy)
    assert np.exp(audit.log_probabilities).sum(axis=0) == pytest.approx(1, abs=1e-12)
    assert audit.epsilon <= dpbai.certificate(policy).epsilon + 1e-9 or gaussian
    for at in (0, audit.grid.size // 2, audit.grid.size - 1):
        table = audit.grid.table(at)
        law = law_on(audit, table)
        runs = run_on_table(policy, table, 30_000, rng())
        assert set(runs) <= {output for output, chance in law.items() if chance > 0}
        for output, chance in law.items():
            p_value = stats.binomtest(runs[output], 30_000, min(chance, 1.0)).pvalue
            assert p_value > FALSE_ALARM


def test_the_audit_of_two_coordinates_agrees_with_quadrature():
    """Both released means enter the decision; the first has two thirds of the other's noise."""
    policy = TwoCoordinates(THREE, budget=5, epsilon=1.5)
    audit = dpbai.exact_audit(policy)
    table = ((1.0, 0.0), (1.0,), (0.0, 0.0))
    first, second = stats.laplace(0.5, 1 / 3), stats.laplace(1.0, 2 / 3)
    # Arm 0 of {0, 1}: z > 0 and z - 0.4 y > 0.3 z + 0.9 y, so y < 0.7 z / 1.3.
    expected, _ = integrate.quad(
        lambda z: first.pdf(z) * second.cdf(0.7 * z / 1.3), 0, 30, points=[0.5, 1.3 / 0.7], limit=99
    )
    law = law_on(audit, table)
    assert law[((0, 1), (0,))] == pytest.approx(expected, abs=1e-9)
    # Of {1, 2} the second phase reads arm 2 twice; a mean of 0, and z < 0.
    other = stats.laplace(0.0, 1 / 3)
    expected, _ = integrate.quad(
        lambda z: first.pdf(z) * other.cdf(0.7 * z / 1.3), -30, 0, points=[-1e-9], limit=99
    )
    assert law[((1, 2), (1,))] == pytest.approx(expected, abs=1e-9)


def test_a_first_phase_that_releases_nothing_leaves_the_later_noise_as_it_is():
    """Three arms tie, and two of them are drawn; then two means with Laplace noise decide."""

    class Lots(TwoCoordinates):
        def phase(self, index, active, past=()):  # noqa: ARG002
            if index == 1:
                return Phase(1, active, (), (), NoNoise(), 2, decoder_matrix=np.empty((3, 0)))
            return Phase(2, active, active, (1, 1), dpbai.Laplace(1.0), 1)

    audit = dpbai.exact_audit(Lots(THREE, budget=5, epsilon=1.0))
    law = law_on(audit, ((1.0,), (0.0,), (0.0,)))
    # Laplace noise, and not Gaussian: P(Z - Z' > -1) = 1 - (2 + 1) / 4e.
    assert law[((0, 1), (0,))] == pytest.approx((1 - 0.75 / math.e) / 3, rel=1e-12)
    assert law[((1, 2), (2,))] == pytest.approx(1 / 6, rel=1e-12)


def test_without_noise_all_paths_are_audited_in_any_number_of_coordinates():
    policy = Remembering(THREE, budget=12, epsilon=math.inf)
    audit = dpbai.exact_audit(policy)
    assert audit.epsilon == math.inf
    for at in range(0, audit.grid.size, audit.grid.size // 3):
        table = audit.grid.table(at)
        law = law_on(audit, table)
        assert sum(law.values()) == pytest.approx(1)
        rows = [iter(row) for row in table]
        plain = plain_loop(math.inf, lambda arm, rows=rows: next(rows[arm]), rng(), 3)
        assert law[tuple(plain)] > 0
        runs = run_on_table(policy, table, 20_000, rng())
        for output, chance in law.items():
            assert stats.binomtest(runs[output], 20_000, min(chance, 1)).pvalue > FALSE_ALARM


def test_what_has_no_exact_law_is_refused_and_audited_by_sampling():
    policy = Remembering(THREE, budget=12, epsilon=1.0)
    with pytest.raises(ValueError, match=r"at most 2 coordinates, .*monte_carlo_audit"):
        dpbai.exact_audit(policy)
    bound = dpbai.monte_carlo_audit(policy, trials=40_000, level=1 - 1e-6)
    assert 0.2 < bound.epsilon <= dpbai.certificate(policy).epsilon
    second = policy.phase(2, (0, 1), (policy.phase(1, range(3)),))
    with pytest.raises(ValueError, match="remembers earlier releases"):
        log_survival(second, np.zeros((1, 2)))
    pulls = PullByPull(TwoCoordinates(THREE, budget=5, epsilon=1.0))
    with pytest.raises(ValueError, match="remembers earlier releases"):
        pulls.recommend(((0, 1.0), (0, 1.0), (1, 1.0), (0, 0.0), (0, 0.0)))


# Sessions


def rewards(random, requests):
    return {label: random.integers(0, 2, pulls) for label, pulls in requests.items()}


@pytest.mark.filterwarnings("ignore::dpbai.ReleaseWarning")
def test_a_session_estimates_from_all_releases_also_when_resumed(tmp_path):
    policy = Remembering(FOUR, budget=27, epsilon=1.0)
    labels = ["a", "b", "c", "d"]
    answers = []
    for resumed in (False, True):
        path, random = tmp_path / f"{resumed}.json", rng()
        session = dpbai.Session(policy, noise=NumpyNoise(4), path=path, labels=labels)
        while session.requests:
            for label, values in rewards(random, session.requests).items():
                session.record({label: values})
                if resumed:
                    session = dpbai.Session.resume(path, policy, noise=NumpyNoise(4))
        total, count = Counter(), Counter()
        for released in session.released:
            for label, n, value in zip(
                released.pulled, released.pulls, released.statistic, strict=True
            ):
                total[label] += n * value
                count[label] += n
            expected = [total[label] / count[label] for label in released.active]
            assert released.estimates == pytest.approx(expected)
            assert set(released.active) - set(released.survivors) == {
                min(released.active, key=lambda label: total[label] / count[label])
            }
        assert session.certificate.epsilon == pytest.approx(1)
        answers.append((session.released, session.recommendation))
    assert answers[0] == answers[1]
    assert len(answers[0][0]) == 3


# Plans that do not match


@pytest.mark.parametrize("remembered", [0, 2, 4])
def test_a_plan_for_another_number_of_releases_is_refused(remembered):
    class Wrong(Remembering):
        def phase(self, index, active, past=()):
            phase = super().phase(index, active, past)
            if not past:
                return phase
            decoder = np.ones((len(active), remembered + len(active)))
            return replace(phase, decoder_matrix=decoder, remembered=remembered)

    policy = Wrong(THREE, budget=12, epsilon=1.0)
    instance = dpbai.Instance(THREE, MEANS[:3])
    for run in (
        lambda: dpbai.simulate(policy, instance, trials=10),
        lambda: dpbai.certificate(policy),
        lambda: dpbai.exact_audit(policy),
        lambda: dpbai.monte_carlo_audit(policy, trials=10),
    ):
        with pytest.raises(ValueError, match="plan phase 2 with remembered=3"):
            run()


def test_a_policy_that_does_not_say_that_it_remembers_gets_no_past():
    class Silent(Remembering):
        remembers = False

    instance = dpbai.Instance(THREE, MEANS[:3])
    result = dpbai.simulate(Silent(THREE, budget=12, epsilon=1.0), instance, trials=50)
    assert result.trials == 50


def test_phases_decode_as_many_coordinates_as_they_remember_and_release():
    given = (1, (0, 1), (0, 1), (1, 1), NoNoise(), 1)
    phase = Phase(*given, decoder_matrix=np.ones((2, 5)), remembered=3)
    assert phase.coordinates == 2
    assert phase.estimates(np.ones(5)).tolist() == [5, 5]
    for wrong in (
        {"decoder_matrix": np.ones((2, 5)), "remembered": 2},
        {"decoder_matrix": np.ones((2, 2)), "remembered": 1},
        {"remembered": 2},
        {"decoder_matrix": np.ones((2, 2)), "remembered": -1},
    ):
        with pytest.raises(ValueError, match=r"^(decoder_matrix|remembered) must"):
            Phase(*given, **wrong)
    with pytest.raises(TypeError, match=r"^remembered must"):
        Phase(*given, decoder_matrix=np.ones((2, 3)), remembered=1.0)


def test_one_phase_that_would_remember_has_the_same_exact_error():
    class One(Remembering):
        def phase(self, index, active, past=()):
            phase = super().phase(index, active, past)
            return replace(phase, keep=1, decoder_matrix=None)

    instance = dpbai.Instance(THREE, MEANS[:3], rewards=dpbai.Bernoulli)
    error = dpbai.exact_error(One(THREE, budget=6, epsilon=1.0), instance)
    result = dpbai.simulate(One(THREE, budget=6, epsilon=1.0), instance, trials=50_000)
    assert stats.binomtest(50_000 - result.successes, 50_000, error).pvalue > FALSE_ALARM
