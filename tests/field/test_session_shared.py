"""Sessions that are shared, copied, seen from several threads, or that lose an arm."""

import logging
import os
import shutil
import threading
import traceback
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbai
from dpbai.field.session import (
    NumpyNoise,
    Session,
    SessionConflictError,
    SessionError,
    ledger,
    store,
)
from dpbai.field.session.interval import _quantile, half_widths
from dpbai.noise import Gaussian, Laplace
from dpbai.phase import Phase

pytestmark = pytest.mark.filterwarnings("ignore::dpbai.field.session.ReleaseWarning")

POLICY = dpbai.DPBAI(np.eye(3), budget=40, epsilon=1.0)
FEATURES = np.random.default_rng(7).normal(size=(8, 3)).round(2)


def begun(path=None, policy=POLICY, seed=1, **options):
    return Session(policy, noise=NumpyNoise(seed), path=path, **options)


def full(session, reward=0.25):
    return {arm: [reward] * pulls for arm, pulls in session.requests.items()}


def finished(session, reward=0.25):
    while session.requests:
        session.record(full(session, reward))
    return session


# Older copies, and other names.


def test_an_older_copy_in_the_place_of_the_file_is_refused_once_its_phase_was_released(tmp_path):
    path, copy = tmp_path / "run.json", tmp_path / "copy.json"
    session = begun(path)
    session.record({0: [0.5]})
    shutil.copy(path, copy)
    session.record({1: [0.5]})
    shutil.copy(copy, path)  # of the phase under way: nothing was released from it
    session = Session.resume(path)
    held = Session.resume(path)
    session.record(full(session))
    newest = path.read_bytes()
    shutil.copy(copy, path)
    with pytest.raises(SessionError, match=r"an older copy: phase 1 has been released since"):
        Session.resume(path)
    with pytest.raises(SessionError, match="an older copy"):  # of the same bytes as it has read
        held.record(full(held))
    assert (held.released, path.read_bytes()) == ((), copy.read_bytes())
    path.write_bytes(newest)
    assert finished(Session.resume(path)).recommendation is not None


def test_a_file_with_a_second_name_is_not_gone_on_with(tmp_path):
    path = tmp_path / "run.json"
    begun(path)
    os.link(path, tmp_path / "other.json")
    for name in ("run.json", "other.json"):
        session = Session.resume(tmp_path / name)
        with pytest.raises(SessionError, match="second name"):
            session.record({0: [0.5]})
    (tmp_path / "other.json").unlink()
    Session.resume(path).record({0: [0.5]})


def test_a_lock_file_that_is_left_from_another_run_stops_no_new_one(tmp_path):
    path = tmp_path / "run.json"
    finished(begun(path))
    path.unlink()
    session = begun(path)
    session.record(full(session))
    assert len(Session.resume(path).released) == 1
    (tmp_path / "run.json.lock").write_text("precious")
    with pytest.raises(SessionError, match=r"run\.json\.lock is no lock file"):
        Session.resume(path)


def test_a_file_that_cannot_be_replaced_says_why_and_changes_nothing(tmp_path, monkeypatch):
    session = begun(tmp_path / "run.json")
    before = session.requests

    def busy(*_):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(store.os, "replace", busy)
    with pytest.raises(SessionError, match="mount of a single file: mount its folder"):
        session.record({0: [0.5]})
    assert session.requests == before
    assert not (tmp_path / "run.json.tmp").exists()


# Several at once.


def test_processes_that_repeat_a_step_after_a_conflict_lose_no_reward(tmp_path):
    """Played by threads with a session each, which share nothing but the file."""
    path = tmp_path / "run.json"
    policy = dpbai.Baseline(np.eye(3), budget=400, epsilon=1.0)
    begun(path, policy)
    conflicts = []

    def visits(place):
        for number in range(6):
            while True:
                session = Session.resume(path)
                try:
                    session.record({place % 3: [1.0]}, batch=f"visit {place} {number}")
                    break
                except SessionConflictError as error:
                    conflicts.append(error)

    threads = [threading.Thread(target=visits, args=[place]) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session = Session.resume(path)
    assert len(session.batches) == 36
    assert sum(session._run.counts) == sum(session._run.sums) == 36


def test_a_lock_that_is_held_is_waited_for_aloud(tmp_path, caplog, monkeypatch):
    path = tmp_path / "run.json"
    session = begun(path)
    monkeypatch.setattr(store, "_PATIENCE", 0.0)
    thread = threading.Thread(target=lambda: session.record({0: [0.5]}))
    with caplog.at_level(logging.WARNING), store.Store(path)._locked():
        thread.start()
        while not caplog.messages:
            assert thread.is_alive()
    thread.join()
    assert caplog.messages == [f"waiting for another process that holds {path}.lock"]


def test_what_a_session_shows_is_one_state_of_it_whatever_other_threads_do():
    """A reader that is interrupted after each look at the session, by a step that ends the run."""
    for show in (
        repr, lambda s: s.requests, lambda s: s.recommendation, lambda s: s.estimates,
        lambda s: s.deviations, lambda s: s.certificate,
    ):  # fmt: skip
        session = begun()
        states = [session._at, finished(begun())._at]
        shown = []
        for state in states:
            session._at = state
            shown.append(show(session))

        class Moving(Session):
            looks = 0

            @property
            def _at(self):
                self.looks += 1
                return self.states[self.looks > 1]

            @_at.setter
            def _at(self, _):
                pass

        moving = object.__new__(Moving)
        moving.__dict__.update({k: v for k, v in session.__dict__.items() if k != "_at"})
        moving.states = states
        assert show(moving) == shown[0]


# Rewards at the ends of their range.


@given(data=st.data())
def test_every_decimal_total_of_rewards_in_a_decimal_range_is_taken_and_none_beyond(data):
    """By hand, in whole thousandths; ends that doubles do not hold are ends all the same."""
    low, width = data.draw(st.integers(-2000, 2000)), data.draw(st.integers(1, 3000))
    count = data.draw(st.integers(1, 6))
    total = data.draw(st.integers(count * low, count * (low + width)) | st.just(count * low))
    session = begun(reward_range=(low / 1000, (low + width) / 1000))
    session.record_sums({0: (total / 1000, count)})
    exact = Fraction(total - count * low, width)
    assert 0 <= session._run.sums[0] <= count
    assert abs(session._run.sums[0] - exact) < Fraction(1, 10**9)
    for beyond in (count * low - 1, count * (low + width) + 1):
        with pytest.raises(ValueError, match="must be of count rewards"):
            session.record_sums({1: (beyond / 1000, count)})


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("high", [0.1, 0.3, 0.6, 1.1, 2.2, 1e5])
@pytest.mark.parametrize("low", [0, -0.7])
def test_rewards_in_single_precision_at_an_end_of_their_range_are_at_it(kind, low, high, tmp_path):
    path = tmp_path / "run.json"
    session = begun(path, reward_range=(low, high))
    ends = np.array([low, high], dtype=kind) if high < 1e5 else np.array([low, low], dtype=kind)
    session.record({0: ends})
    again = Session.resume(path)
    assert again._run.counts[0] == 2
    assert abs(again._run.sums[0] - (1 if high < 1e5 else 0)) < Fraction(1, 100)
    for wrong in (np.inf, -np.inf, np.nan, 1.01 * high):
        with np.errstate(over="ignore"), pytest.raises(ValueError, match="must lie in"):
            session.record({1: np.array([wrong], dtype=kind)})


# Names.

HIDDEN = ["a\nRecommended: b", "a\rb", "\x1b[2Ja", "a\x00", "\ud800", "a\u2028b", "\u202eb", "\x9b"]
SHOWN = [
    "fl\u00fcr",
    "\u65e5\u672c",
    "\U0001f469\u200d\U0001f52c",
    "a b",
    "50 %",
    "$x^2$",
    "\u0627\u0644",
]


@pytest.mark.parametrize("name", HIDDEN)
def test_a_name_that_controls_what_shows_it_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match="no control character") as error:
        begun(labels=[name, "x", "y"])
    assert str(error.value).isprintable()
    session = begun(tmp_path / "run.json")
    with pytest.raises(ValueError, match="control characters") as error:
        session.record({0: [0.5]}, batch=name)
    assert str(error.value).isprintable()
    with pytest.raises(ValueError, match="control characters"):
        begun(population=name)
    assert session._run.counts == (0,) * 3


def test_names_in_any_script_are_kept(tmp_path):
    path = tmp_path / "run.json"
    session = begun(path, labels=SHOWN[:3])
    for name in SHOWN:
        session.record({}, batch=name)
    assert Session.resume(path).batches.keys() == set(SHOWN)


@pytest.mark.parametrize("batch", [0.7311, [0.7311], b"0.7311", {"x": 0.7311}, np.float64(0.7311)])
def test_a_reward_in_the_place_of_a_batch_is_not_told(batch):
    session = begun()
    for call in (lambda: session.record({0: [0.5]}, batch=batch), lambda: session.undo(batch)):
        with pytest.raises(TypeError, match="batch must be") as error:
            call()
        assert "7311" not in "".join(traceback.format_exception_only(error.value))


# An arm that is gone.


def test_what_an_arm_that_is_withdrawn_lacks_counts_as_the_middle_and_nothing_else_changes(
    tmp_path,
):
    """By hand: the plan, its noise and its loss are what they were; and the arm is out."""
    path = tmp_path / "run.json"
    session, noise = begun(path, reward_range=(1, 5)), NumpyNoise(1)
    plan = session.phase
    session.record({0: [5, 5], 1: [2, 3, 4]}, batch="early")
    session.withdraw(0)
    assert session.withdrawn == (0,)
    assert set(session.requests) == {1, 2}
    with pytest.raises(ValueError, match="asked for"):
        session.record({0: [5]})
    session = Session.resume(path, noise=NumpyNoise(1))
    session.record({1: [3] * (plan.pulls[1] - 3), 2: [1] * plan.pulls[2]})
    released = session.released[0]
    drawn = np.array(noise.add(plan.noise, [0.0] * 3, phase=1))
    n = plan.pulls[0]
    means = [(2 + (n - 2) / 2) / n, 0.5, 0.0]
    assert released.statistic == pytest.approx(means + drawn)
    assert released.pulls == (2, *plan.pulls[1:])
    assert session.phases[0].noise == plan.noise
    assert released.epsilon <= plan.loss() * (1 + 1e-12)
    assert 0 not in released.survivors
    assert "0 was withdrawn with 2 of" in str(session.certificate).replace("\n  ", " ")
    assert session.certificate.epsilon == begun().certificate.epsilon
    assert finished(Session.resume(path), 3).recommendation in (1, 2)


@pytest.mark.parametrize(
    "policy",
    [
        dpbai.DPBAI(FEATURES, budget=150, epsilon=0.5),
        dpbai.DPDesign(FEATURES, budget=150, epsilon=0.5, phases=2),
        dpbai.DPOD(FEATURES, budget=150, epsilon=0.5, norm="l1"),
        dpbai.Baseline(FEATURES, budget=150, epsilon=0.5),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_a_run_without_arms_that_give_no_reward_ends_and_never_recommends_them(policy, tmp_path):
    path = tmp_path / "run.json"
    session = begun(path, policy)
    gone = list(session.requests)[:3]
    for arm in gone:
        session.withdraw(arm)
    with pytest.raises(SessionError, match="only an arm in play"):
        session.withdraw(gone[0])
    rng = np.random.default_rng(0)
    while session.requests:
        assert not set(session.requests) & set(gone)
        session.record({arm: rng.random(n) for arm, n in session.requests.items()})
        session = Session.resume(path, noise=NumpyNoise(1))
    assert session.recommendation not in gone
    assert session.certificate.epsilon <= 0.5 * (1 + 1e-9)
    assert sum(phase.cost for phase in session.phases) <= policy.budget


def test_what_is_released_of_an_arm_without_a_reward_depends_on_no_reward():
    """And a phase of which only that arm is missing is released when the arm is withdrawn."""
    statistics = []
    for reward in (0.0, 1.0):
        session = begun(policy=dpbai.Baseline(np.eye(4), budget=40, epsilon=1.0))
        session.record({arm: [reward] * n for arm, n in session.requests.items() if arm})
        session.withdraw(0)
        statistics.append(session.released[0].statistic)
    assert statistics[0][0] == statistics[1][0]
    assert statistics[0][1] != statistics[1][1]


def test_two_arms_at_least_stay():
    session = begun()
    session.withdraw(2)
    for arm in (0, 1, 5, "0", None, 0.5):
        with pytest.raises(SessionError, match=r"two arms at least|only an arm in play"):
            session.withdraw(arm)
    with pytest.raises(SessionError, match="finished"):
        finished(session).withdraw(0)


# An interval for the mean of the answer.


@pytest.mark.parametrize("noise", [Laplace(0.1), Gaussian(0.1)], ids=repr)
@pytest.mark.parametrize("came", [20, 5])
def test_noise_and_sampling_are_off_by_no_more_among_equal_arms(noise, came):
    """The answer is the luckiest of six: 50 000 runs, six standard errors (1e-9).

    By noise alone an interval for an arm that was named beforehand would be left four times as
    often. An arm that was withdrawn has `came` of 20 rewards, and the middle for the others.
    """
    phase = Phase(1, tuple(range(6)), tuple(range(6)), (20,) * 6, noise, 1)
    counts, rng = np.full(6, came), np.random.default_rng(1)
    found, sampled, _ = half_widths([phase], [counts.tolist()], np.eye(6), 0, 0.8)
    mean = 0.5 if came == 20 else 0.9
    means = (rng.binomial(counts, mean, (50_000, 6)) + (20 - counts) / 2) / 20
    drawn = noise.sample(rng, (50_000, 6))
    error = 6 * np.sqrt(0.1 * 0.9 / 50_000)
    by_noise = np.abs(drawn.max(axis=1))
    assert 0.04 < np.mean(by_noise > found) < 0.1 + error
    by_sampling = np.abs(means.max(axis=1) - mean)
    assert np.mean(by_sampling > sampled) < 0.1 + error
    answer = (means + drawn).argmax(axis=1)[:, None]
    off = np.take_along_axis(means + drawn, answer, axis=1) - mean
    assert np.mean(np.abs(off) > found + sampled) < 0.2


def test_the_interval_of_a_policy_that_remembers_holds_the_mean_of_its_answer():
    """Equal arms, 30 runs at 90 %: 15 hits or more, but for a chance of 1e-8."""
    policy = dpbai.DPDesign(np.eye(4), budget=60, epsilon=1.0, phases=2)
    rng, hits = np.random.default_rng(5), 0
    for seed in range(30):
        session = begun(policy=policy, seed=seed, reward_range=(0, 2))
        while session.requests:
            session.record({arm: 2 * rng.integers(0, 2, n) for arm, n in session.requests.items()})
        interval = session.interval(0.9)
        assert interval.high - interval.low == pytest.approx(
            2 * (interval.noise + interval.sampling)
        )
        hits += interval.low <= 1 <= interval.high
    assert hits >= 15


def test_without_noise_the_interval_is_that_of_hoeffding():
    """Two sides, two arms, half of the error for sampling; with noise, its tail for the other."""
    policy = dpbai.Baseline(np.eye(2), budget=100, epsilon=np.inf)
    session = finished(begun(policy=policy))
    interval, pulls = session.interval(0.9), session.phases[0].pulls[0]
    half = np.sqrt(np.log(2 * 2 / 0.05) / (2 * pulls))
    assert (interval.noise, interval.sampling) == (0.0, pytest.approx(half))
    assert interval.low == pytest.approx(0.25 - half)
    noisy = finished(begun(policy=dpbai.Baseline(np.eye(2), budget=100, epsilon=1.0)))
    assert noisy.interval(0.9).noise == pytest.approx(np.log(2 / 0.05) / pulls)
    assert noisy.interval(0.9).sampling == pytest.approx(half)


def test_a_bound_on_sums_of_laplace_noise_is_one_and_not_far_off():
    """100 000 draws: the chance to exceed it is at most 5 %, and 0.2 % at least."""
    weights, scale = np.array([1.0, -2.0, 0.5, 0.0]), 3.0
    bound = _quantile(dpbai.Laplace(scale), weights, 0.05)
    drawn = np.random.default_rng(0).laplace(scale=scale, size=(100_000, 4)) @ weights
    assert 0.002 < np.mean(np.abs(drawn) > bound) < 0.05


def test_where_differences_alone_are_released_no_mean_is_told():
    session = begun(policy=dpbai.DPDesign(np.eye(2), budget=100, epsilon=1.0))
    with pytest.raises(SessionError, match="not finished"):
        session.interval()
    with pytest.raises(SessionError, match="differences of means, which determine no mean"):
        finished(session).interval()
    for confidence in (0, 1, np.nan):
        with pytest.raises(ValueError, match="confidence"):
            session.interval(confidence)


# What several runs cost.


def test_runs_of_the_same_people_add_up_and_those_of_others_do_not(tmp_path):
    def run(epsilon, population=None, name=None):
        policy = dpbai.DPBAI(np.eye(3), budget=40, epsilon=epsilon)
        path = name and tmp_path / name
        return finished(begun(path, policy, seed=int(100 * epsilon), population=population))

    a, b, c = run(1.0, "north"), run(0.5, "south"), run(0.25, "north", "c.json")
    anyone = run(2.0)
    assert ledger([a]).epsilon == pytest.approx(1.0)
    assert ledger([a, b]).epsilon == pytest.approx(1.0)
    assert ledger([a, b, c]).epsilon == pytest.approx(1.25)
    assert ledger([a, b, c, anyone]).epsilon == pytest.approx(3.25)
    assert ledger([anyone, run(3.0)]).epsilon == pytest.approx(5.0)
    assert ledger([a, c], group=3).epsilon == pytest.approx(3.75)
    again = Session.resume(tmp_path / "c.json")
    assert again.population == "north"
    assert (ledger([a, c, again]).epsilon, ledger([a, c, again]).copies) == (
        pytest.approx(1.25), (2,),
    )  # fmt: skip
    gauss = dpbai.DPBAIGauss(np.eye(3), budget=40, epsilon=1.0, delta=1e-3)
    two = [begun(policy=gauss), begun(policy=gauss)]
    assert ledger(two).delta == pytest.approx(2e-3)
    with pytest.raises(ValueError, match="at least one run"):
        ledger([])


def test_the_guarantee_of_several_rewards_is_that_of_the_policy():
    session = finished(begun(policy=dpbai.DPBAI(FEATURES, budget=150, epsilon=0.5)))
    for group in (1, 2, 5):
        expected = dpbai.certificate(session.policy, group=group, mechanism=session.noise)
        found = session.group_certificate(group)
        assert found.epsilon == pytest.approx(expected.epsilon)
        assert (found.group, found.released) == (group, len(session.released))
    with pytest.raises(ValueError, match="group"):
        session.group_certificate(0)
