"""What goes wrong in the field: other scales, the same batch twice, mistakes, missing rewards."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import Triangular

import dpbai
from dpbai.field.session import Batch, NumpyNoise, OpenDPNoise, Session, SessionError
from dpbai.field.session.phase import noise_deviations, shortened
from dpbai.noise import Gaussian, Laplace
from dpbai.phase import Phase

pytestmark = pytest.mark.filterwarnings("ignore::dpbai.field.session.ReleaseWarning")

FEATURES = np.random.default_rng(7).normal(size=(8, 3)).round(2)
POLICIES = {
    "DPBAI": dpbai.DPBAI(FEATURES, budget=150, epsilon=0.5),
    "DPBAIGauss": dpbai.DPBAIGauss(FEATURES, budget=150, epsilon=0.5, delta=1e-5),
    "DPOD": dpbai.DPOD(FEATURES, budget=150, epsilon=0.5, norm="l1"),
    "ODLinBAI": dpbai.ODLinBAI(FEATURES, budget=150),
    "DPDesign": dpbai.DPDesign(FEATURES, budget=150, epsilon=0.5, phases=2),
}


def rehearsal(policy=POLICIES["DPBAI"], seed=1, **options):
    return Session(policy, noise=NumpyNoise(seed), **options)


def deliver(session, means, rng, scale=lambda rewards: rewards):
    """Give all that is asked for, 0 or 1 by the means, on a scale."""
    batch = {arm: rng.random(pulls) < means[arm] for arm, pulls in session.requests.items()}
    session.record({arm: scale(rewards.astype(float)) for arm, rewards in batch.items()})


# Rewards on another scale.


@pytest.mark.parametrize(("low", "high"), [(1, 5), (-3, 1), (0, 0.1), (-7.3, -2), (0, 2**50)])
def test_rewards_in_another_range_give_the_same_run_in_their_units(low, high, tmp_path):
    plain = rehearsal(path=tmp_path / "plain.json")
    scaled = rehearsal(path=tmp_path / "scaled.json", reward_range=(low, high))
    rngs = np.random.default_rng(0), np.random.default_rng(0)
    means = np.linspace(0.1, 0.9, 8)
    while plain.requests:
        assert scaled.requests == plain.requests
        deliver(plain, means, rngs[0])
        deliver(scaled, means, rngs[1], lambda rewards: np.where(rewards == 1, high, low))
        scaled = Session.resume(tmp_path / "scaled.json", noise=NumpyNoise(1))
    assert scaled.reward_range == (low, high)
    assert scaled.recommendation == plain.recommendation
    for ours, theirs in zip(scaled.released, plain.released, strict=True):
        assert ours.statistic == theirs.statistic
    for arm in range(8):
        assert scaled.estimates[arm] == pytest.approx(low + (high - low) * plain.estimates[arm])
        assert scaled.deviations[arm] == pytest.approx((high - low) * plain.deviations[arm])
    assert scaled.certificate.epsilon == plain.certificate.epsilon
    assert f"rewards lie in [{low:.15g}, {high:.15g}]" in " ".join(str(scaled.certificate).split())


def test_the_sum_of_rewards_in_another_range_is_mapped_without_rounding():
    session = rehearsal(reward_range=(0.1, 0.7))
    arm = next(iter(session.requests))
    rewards = [0.1, 0.7, 0.3, 0.1]
    session.record({arm: rewards})
    low, high = Fraction(0.1), Fraction(0.7)
    assert session._run.sums[0] == sum((Fraction(x) - low) / (high - low) for x in rewards)
    with_sums = rehearsal(reward_range=(0.1, 0.7))
    with_sums.record_sums({arm: (sum(map(Fraction, rewards)), 4)})
    assert with_sums._run.sums == session._run.sums


@pytest.mark.parametrize(
    "bounds",
    [(1, 1), (5, 1), (math.nan, 1), (0, math.inf), (0,), (0, 1, 2), 5, "15", (0, 2.0**60), None],
)
def test_a_range_that_is_none_is_refused(bounds):
    with pytest.raises((ValueError, TypeError), match="reward_range"):
        rehearsal(reward_range=bounds)


@pytest.mark.parametrize("reward", [0.999, 5.001, 0, 6, math.nan])
def test_rewards_outside_their_range_are_refused_and_never_told(reward):
    session = rehearsal(reward_range=(1, 5))
    arm = next(iter(session.requests))
    with pytest.raises(ValueError, match=r"\[1, 5\]|finite") as error:
        session.record({arm: [3.0, reward]})
    assert str(reward) not in str(error.value)
    with pytest.raises(ValueError, match=r"\[1, 5\]|finite") as error:
        session.record_sums({arm: (reward, 1)})
    assert str(reward) not in str(error.value)
    assert session._run.counts[0] == 0


# The same batch twice, and mistakes.


def test_a_batch_is_taken_once_in_the_whole_run(tmp_path):
    path = tmp_path / "run.json"
    session = rehearsal(path=path)
    arm = next(iter(session.requests))
    session.record({arm: [0.5]}, batch="monday")
    for again in (session, Session.resume(path)):
        before = again.requests
        with pytest.raises(SessionError, match=r"'monday' was recorded already, in phase 1"):
            again.record_sums({arm: (0.25, 1)}, batch="monday")
        assert again.requests == before
    session.record({arm: [0.5]}, batch="tuesday")
    rest = {arm: [0.5] * pulls for arm, pulls in session.requests.items()}
    session.record(rest, batch=3)
    assert len(session.released) == 1
    with pytest.raises(SessionError, match=r"'3' was recorded already, in phase 1"):
        session.record({next(iter(session.requests)): [0.5]}, batch="3")
    with pytest.raises(TypeError, match="batch must be"):
        session.record({next(iter(session.requests)): [0.5]}, batch=0.5)


def test_what_is_undone_leaves_no_trace(tmp_path):
    kept, undone = (rehearsal(path=tmp_path / f"{name}.json") for name in ("kept", "undone"))
    first, second = list(kept.requests)[:2]
    for session in (kept, undone):
        session.record({first: [0.5, 0.25]}, batch="good")
    undone.record({first: [1.0], second: [0.1, 0.7]}, batch="bad")
    undone.record_sums({second: (0.3, 1)}, batch="worse")
    assert undone.batches["bad"] == Batch(1, {first: 1, second: 2})
    undone.undo("bad")
    Session.resume(tmp_path / "undone.json").undo("worse")
    assert (tmp_path / "kept.json").read_bytes() == (tmp_path / "undone.json").read_bytes()
    undone = Session.resume(tmp_path / "undone.json")
    undone.record({first: [0.0]}, batch="bad")


def test_only_a_whole_batch_of_the_phase_under_way_is_undone():
    """It is named, not told again: there is nothing to compare, nor to learn from a refusal."""
    session = rehearsal()
    first = next(iter(session.requests))
    session.record({first: [0.5]}, batch="a")
    session.record({first: [0.25]})  # has no name
    before = session.requests
    for name, said in (("b", "; there is: 'a'"), ("", "have a name"), (0.5, "must be")):
        with pytest.raises((SessionError, ValueError, TypeError), match=said) as error:
            session.undo(name)
        assert "0.5" not in str(error.value)
    assert session.requests == before
    session.record({arm: [0.5] * pulls for arm, pulls in session.requests.items()})
    session.record({next(iter(session.requests)): [0.5]})
    with pytest.raises(SessionError, match="'a' is in phase 1, which has been released"):
        session.undo("a")
    assert session.batches == {"a": Batch(1, {first: 1})}


# A phase that will not get all its rewards.


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_fewer_rewards_cost_no_more_privacy_whatever_their_numbers(data):
    """By the account of OpenDP and by the law of the noise; and no noise is wider than it must."""
    policy = POLICIES[data.draw(st.sampled_from(["DPBAI", "DPBAIGauss", "DPOD", "DPDesign"]))]
    phase = policy.phase(1, range(8))
    pulls = tuple(data.draw(st.integers(1, planned)) for planned in phase.pulls)
    fewer = shortened(phase, pulls)
    assert fewer.pulls == pulls
    assert fewer.loss() <= phase.loss()
    assert fewer.loss() >= phase.loss() * (1 - 1e-9)
    losses = [
        max(OpenDPNoise().loss(plan.noise, shift, plan.delta) for shift in shifts_of(plan))
        for plan in (phase, fewer)
    ]
    assert losses[1] <= losses[0] * (1 + 1e-12)
    assert np.array_equal(fewer.release, phase.release)
    assert np.array_equal(fewer.decoder, phase.decoder)


@pytest.mark.parametrize("noise", [Laplace(1e-170), Gaussian(1e-170)], ids=repr)
@pytest.mark.parametrize("unit", [0.0, 3e-170, 1e160])
def test_the_noise_of_a_release_in_any_units_is_widened(noise, unit):
    """Squares of such numbers are no doubles. A release that is all zero hides in any noise."""
    release = np.array([[1.0, 0.5], [0.0, 2.0]]) * unit
    plan = Phase(1, (0, 1), (0, 1), (4, 4), noise, 1, release, np.eye(2), delta=1e-3)
    fewer = shortened(plan, (4, 1))
    assert fewer.loss() <= plan.loss()
    factor = fewer.noise.standard_deviation / noise.standard_deviation
    assert factor == pytest.approx(4.0 if unit else 1.0)


def shifts_of(plan):
    """How far a reward moves the release, in fractions."""
    return [
        tuple(abs(Fraction(entry)) / pulls for entry in column if entry)
        for column, pulls in zip(plan.release.T.tolist(), plan.pulls, strict=True)
    ]


@pytest.mark.parametrize("name", POLICIES)
def test_a_phase_that_is_ended_early_releases_means_of_what_came(name, tmp_path):
    """By hand: the means of what came, noise in proportion; resumed, the run goes on the same."""
    policy, path = POLICIES[name], tmp_path / "run.json"
    session = Session(policy, noise=NumpyNoise(4), path=path)
    plan = policy.phase(1, range(8))
    rng = np.random.default_rng(3)
    batch = {arm: rng.random(max(1, pulls - 2)) for arm, pulls in session.requests.items()}
    session.record(batch)
    session.end_phase()
    released, came = session.released[0], tuple(map(len, batch.values()))
    assert released.pulls == came
    lengths = [np.abs(plan.release), plan.release**2][name == "DPBAIGauss"].sum(axis=0)
    lengths = np.sqrt(lengths) if name == "DPBAIGauss" else lengths
    factor = (lengths / came).max() / (lengths / plan.pulls).max()
    noise = np.array(NumpyNoise(4).add(plan.noise, [0.0] * plan.coordinates, phase=1)) * factor
    exact = plan.release @ [rewards.mean() for rewards in batch.values()]
    assert released.statistic == pytest.approx(exact + noise, rel=1e-9, abs=1e-9)
    assert released.estimates == pytest.approx(plan.decoder @ (exact + noise), abs=1e-9)
    assert released.epsilon <= plan.loss() * (1 + 1e-12)
    assert f"{sum(came)} of {plan.cost} rewards" in " ".join(released.remarks)
    deviation = plan.noise.standard_deviation * factor * np.linalg.norm(plan.decoder, axis=1)
    assert noise_deviations(session.phases) == pytest.approx(deviation, abs=1e-12)
    again = Session.resume(path, noise=NumpyNoise(4))
    assert (again.requests, again.deviations) == (session.requests, session.deviations)
    assert again.certificate == session.certificate
    assert session.certificate.epsilon == Session(policy, noise=NumpyNoise(4)).certificate.epsilon
    while again.requests:
        again.record({arm: rng.random(pulls) for arm, pulls in again.requests.items()})
    assert again.finished


def test_how_far_the_noise_is_widened_depends_on_no_reward(tmp_path):
    runs = []
    for reward in (0.0, 1.0):
        session = rehearsal(path=tmp_path / f"{reward}.json")
        session.record({arm: [reward] * (n - 1) for arm, n in session.requests.items()})
        session.end_phase()
        runs.append((session.phases[0].noise, session.released[0].pulls))
    assert runs[0] == runs[1]


def test_a_phase_without_a_reward_of_each_arm_is_not_ended():
    session = rehearsal()
    first, second = list(session.requests)[:2]
    session.record({first: [0.5]})
    with pytest.raises(SessionError, match=f"at least one reward, and {second} has none"):
        session.end_phase()
    assert session.released == ()
    while session.requests:
        session.record({arm: [0.5] * pulls for arm, pulls in session.requests.items()})
    with pytest.raises(SessionError, match="finished"):
        session.end_phase()


def test_noise_of_an_unknown_kind_is_not_widened():
    plan = POLICIES["DPBAI"].phase(1, range(8))
    odd = replace(plan, noise=Triangular(1.0))
    with pytest.raises(TypeError, match="Triangular noise cannot be ended early"):
        shortened(odd, (1,) * len(plan.pulls))
    with pytest.raises(ValueError, match="at most those that were planned"):
        shortened(plan, tuple(pulls + 1 for pulls in plan.pulls))


def test_deviations_are_those_of_many_noises():
    """Each within 6 standard errors of the deviation of 20 000 draws: a false alarm of 2e-9."""
    for policy in POLICIES.values():
        plan = policy.phase(1, range(8))
        drawn = plan.noise.sample(np.random.default_rng(1), (20_000, plan.coordinates))
        sampled = (drawn @ plan.decoder.T).std(axis=0)
        error = 6 * math.sqrt(5 / 4 / 20_000) + 1e-12  # of a deviation of Laplace noise
        assert noise_deviations([plan]) == pytest.approx(sampled, rel=error, abs=1e-12)


def test_repr_says_where_a_session_stands():
    session = rehearsal()
    total = sum(session.requests.values())
    assert repr(session) == f"<Session: DPBAI, 8 arms, 8 in play, phase 1 has 0 of {total} rewards>"
    session.record({next(iter(session.requests)): [0.5]})
    assert f"has 1 of {total}" in repr(session)
    for _ in itertools.takewhile(lambda _: session.requests, itertools.count()):
        session.record({arm: [0.5] * pulls for arm, pulls in session.requests.items()})
    told = repr(session)
    assert told == f"<Session: DPBAI, 8 arms, finished, {session.recommendation} recommended>"
