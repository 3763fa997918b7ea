"""Sessions: what they request, accept, refuse, release, and guarantee."""

import enum
import itertools
import math
import random
import traceback
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import Triangular
from sessions import ARMS, DP_BAI, POLICIES, THREE_ARMS, Deaf, begun, finished, full

import dpbai
from dpbai.field.session import Batch, NumpyNoise, OpenDPNoise, Session, SessionError, ledger
from dpbai.field.session.interval import _quantile, half_widths, standard_deviations
from dpbai.field.session.releases import shortened
from dpbai.noise import Gaussian, Laplace
from dpbai.phase import Phase
from dpbai.plans import Stage

pytestmark = pytest.mark.filterwarnings("ignore::dpbai.field.session.ReleaseWarning")

every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
rehearsal = partial(begun, policy=DP_BAI)


# What a session requests, and what it computes from the rewards.


@every_policy
def test_a_session_follows_the_plan_of_its_policy_phase_by_phase(policy):
    session = begun(policy=policy)
    rng = np.random.default_rng(2)
    active, index, spent = tuple(range(ARMS)), 0, 0
    stage, so_far = Stage.first(policy), []
    while len(active) > 1:
        index += 1
        plan = stage.phase
        assert session.requests == dict(zip(plan.pulled, plan.pulls, strict=True))
        batch = full(session, rng)
        session.record(batch)
        # By hand: float means, the noise of the phase, the matrices, a sort.
        means = np.array([batch[arm].mean() for arm in plan.pulled])
        exact = plan.release @ means
        noise = np.array(NumpyNoise(1).add(plan.noise, [0.0] * plan.coordinates, phase=index))
        released = session.released[-1]
        assert released.statistic == pytest.approx(exact + noise, rel=1e-12, abs=1e-12)
        so_far.extend(exact + noise)
        estimates = plan.decoder @ so_far[-plan.decoder.shape[1] :]
        assert released.estimates == pytest.approx(estimates, rel=1e-9, abs=1e-9)
        best = sorted(range(len(active)), key=lambda i: -estimates[i])[: plan.keep]
        active = tuple(sorted(active[i] for i in best))
        assert released.survivors == active
        assert session.recommendation == (active[0] if len(active) == 1 else None)
        stage = stage.then(active)
        spent += sum(plan.pulls)
    assert session.finished
    assert session.requests == {}
    assert (session.recommendation,) == active
    assert spent <= policy.budget


def test_an_estimate_is_from_the_last_phase_with_the_arm_in_play():
    session = begun(policy=DP_BAI)
    finished(session, np.random.default_rng(0))
    first, last = session.released[0], session.released[-1]
    assert set(session.estimates) == set(range(ARMS))
    assert session.recommendation in last.active
    for arm, estimate in zip(last.active, last.estimates, strict=True):
        assert session.estimates[arm] == estimate
    gone = set(first.active) - set(first.survivors)
    for arm in gone:
        assert session.estimates[arm] == first.estimates[first.active.index(arm)]


def test_deviations_are_those_of_many_draws_of_the_noise():
    """Each within 6 standard errors of the deviation of 20 000 draws: a false alarm of 2e-9."""
    for policy in POLICIES.values():
        plan = policy.phase(1, range(ARMS))
        drawn = plan.noise.sample(np.random.default_rng(1), (20_000, plan.coordinates))
        sampled = (drawn @ plan.decoder.T).std(axis=0)
        error = 6 * math.sqrt(5 / 4 / 20_000) + 1e-12  # of a deviation of Laplace noise
        assert standard_deviations([plan]) == pytest.approx(sampled, rel=error, abs=1e-12)


def test_deviations_of_noise_and_rewards_add_up_in_squares():
    """By hand: two means of 4 and 25 rewards, and their difference."""
    decoder = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
    plan = Phase(1, (0, 1, 2), (0, 1), (4, 25), Gaussian(0.3), 1, decoder_matrix=decoder)
    means = np.array([0.3**2 + 0.5**2 / 4, 0.3**2 + 0.5**2 / 25])
    expected = np.sqrt([*means, means.sum()])
    assert standard_deviations([plan], 0.5) == pytest.approx(expected)


def test_repr_shows_the_state_of_a_session():
    session = rehearsal()
    total = sum(session.requests.values())
    stands = f"10 arms, 10 in play, phase 1 has 0 of {total} rewards"
    assert repr(session) == f"<Session: DPBAI, {stands}>"
    session.record({next(iter(session.requests)): [0.5]})
    assert f"has 1 of {total}" in repr(session)
    assert (
        repr(finished(session))
        == f"<Session: DPBAI, 10 arms, finished, {session.recommendation} recommended>"
    )


def test_ties_are_broken_at_random_and_reproducibly_with_a_seed():
    """Of ten equal arms 5, 3, 2 and 1 are kept: by chance two runs agree with probability 7e-5."""
    policy = dpbai.DPBAI(np.eye(10), budget=200, epsilon=math.inf)
    runs = [
        [released.survivors for released in finished(begun(policy=policy, seed=seed)).released]
        for seed in (1, 1, 2, 2, 3, 3)
    ]
    assert runs[::2] == runs[1::2]
    assert len(set(map(str, runs))) == 3


def test_a_finished_session_accepts_no_more_rewards():
    session = Session(DP_BAI, noise=Deaf())
    finished(session, np.random.default_rng(0))
    with pytest.raises(SessionError, match="finished"):
        session.record({session.recommendation: [0.5]})


def test_a_session_deletes_the_sums_of_rewards_when_their_phase_is_released():
    session = begun(policy=DP_BAI)
    while session.requests:
        session.record(full(session), batch=f"phase {session.phase.index}")
        assert session._run.sums == {}
        assert set(session._run.totals.values()) <= {(0, 0)}
    assert session._run.totals == {}


def test_a_session_shows_one_consistent_state_whatever_other_threads_do():
    """After each read of the state by one thread, another thread ends the run."""
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


# Names of arms and batches.


def test_labels_name_the_arms_in_all_results():
    names = [f"variant {letter}" for letter in "ABCDEFGHIJ"]
    named = begun(policy=DP_BAI, labels=names)
    plain = begun(policy=DP_BAI)
    rng = np.random.default_rng(0)
    while plain.requests:
        batch = full(plain, rng)
        assert named.requests == {names[arm]: pulls for arm, pulls in plain.requests.items()}
        plain.record(batch)
        named.record({names[arm]: rewards for arm, rewards in batch.items()})
    assert named.recommendation == names[plain.recommendation]
    assert named.estimates == {names[arm]: value for arm, value in plain.estimates.items()}
    for ours, theirs in zip(named.released, plain.released, strict=True):
        assert ours.survivors == tuple(names[arm] for arm in theirs.survivors)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([*"abcdefgh", 1, "1"], "10 distinct names"),
        ([*"abcdefgh", "x", " x "], "10 distinct names"),
        ([*"abcdefgh", "caf\u00e9", "cafe\u0301"], "10 distinct names"),
        ([*"abcdefghi", " "], "10 distinct names"),
        (["a", "b"], "10 distinct names"),
        (["a"] * 10, "10 distinct names"),
        ([*"abcdefghi", None], "integers or strings"),
        ([*"abcdefghi", True], "integers or strings"),
        ([*"abcdefghi", 1.5], "integers or strings"),
    ],
)
def test_labels_that_do_not_name_the_arms_are_refused(labels, message):
    with pytest.raises((ValueError, TypeError), match=message):
        begun(policy=DP_BAI, labels=labels)


class Colour(str, enum.Enum):  # noqa: UP042  (the older kind, whose str() is its own name)
    RED = "red"
    GREEN = "green"
    BLUE = "blue"


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        (list(Colour), ("red", "green", "blue")),
        (np.array(["red", "green", "blue"]), ("red", "green", "blue")),
        (np.arange(3, dtype=np.uint8), (0, 1, 2)),
        (enum.IntEnum("Number", "ONE TWO THREE"), (1, 2, 3)),
        (["caf\u00e9", "cafe", "the\u0301"], ("caf\u00e9", "cafe", "th\u00e9")),
    ],
    ids=["enum", "numpy strings", "numpy integers", "integer enum", "accents"],
)
def test_labels_are_stored_as_plain_names_and_found_by_those_given(labels, kept, tmp_path):
    path = tmp_path / "session.json"
    Session(THREE_ARMS, path=path, labels=labels)
    session = Session.resume(path)
    assert session.labels == kept
    assert {type(label) for label in session.labels} <= {int, str}
    asked = session.requests
    session.record({given: [0.5] for given in labels})
    assert session.requests == {name: pulls - 1 for name, pulls in asked.items()}


def test_two_names_of_one_arm_add_up():
    one, two = "caf\u00e9", "cafe\u0301"
    session = Session(THREE_ARMS, labels=[one, "tea", "milk"])
    before = session.requests[one]
    session.record({one: [0.5], two: [0.5]}, batch="both")
    assert session.batches["both"].counts == {one: 2}
    session.undo("both")
    assert session.requests[one] == before
    session.record({one: [0.5], two: [0.5]})
    assert session.requests[one] == before - 2
    with pytest.raises(ValueError, match="must be at most 0 more"):
        session.record({one: [0.5] * (before - 2), two: [0.5]})


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
def test_a_name_with_control_characters_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match="not contain control characters") as error:
        begun(labels=[name, "x", "y"])
    assert str(error.value).isprintable()
    session = begun(tmp_path / "run.json")
    with pytest.raises(ValueError, match="control characters") as error:
        session.record({0: [0.5]}, batch=name)
    assert str(error.value).isprintable()
    with pytest.raises(ValueError, match="control characters"):
        begun(population=name)
    assert session.requests == begun().requests


def test_names_in_any_script_are_kept(tmp_path):
    path = tmp_path / "run.json"
    session = begun(path, labels=SHOWN[:3])
    for name in SHOWN:
        session.record({}, batch=name)
    assert Session.resume(path).batches.keys() == set(SHOWN)


@pytest.mark.parametrize("batch", [0.7311, [0.7311], b"0.7311", {"x": 0.7311}, np.float64(0.7311)])
def test_a_reward_in_place_of_a_batch_is_not_quoted(batch):
    session = begun()
    for call in (lambda: session.record({0: [0.5]}, batch=batch), lambda: session.undo(batch)):
        with pytest.raises(TypeError, match="batch must be") as error:
            call()
        assert "7311" not in "".join(traceback.format_exception_only(error.value))


# Rewards: which are accepted, and that their sums are exact.


ODD = 0.7310585786300049  # a reward that no other text contains


GOOD = {
    "a list": [0.0, 0.5, 1.0],
    "integers": np.array([0, 1, 1]),
    "small integers": np.array([0, 1], dtype=np.uint8),
    "booleans": np.array([True, False]),
    "a list of booleans": [True, False, True],
    "minus zero": [-0.0, 1.0],
    "single precision": np.array([0.1, 0.9], dtype=np.float32),
    "a series": pd.Series([0.25, 0.75], index=["x", "y"]),
    "the least number": [5e-324],
    "a read-only view": np.broadcast_to(0.5, 3),
}


BAD = {
    "a little above 1": [0.5, 1.0000001],
    "one unit above 1": [np.nextafter(1, 2)],
    "a little below 0": [-5e-324],
    "NaN": [ODD, math.nan],
    "infinity": [math.inf],
    "minus infinity": [-math.inf],
    "a percentage": [50.0, 73.10585786300049],
    "an integer above 1": [0, 1, 2],
    "a negative integer": np.array([0, -1]),
    "a huge integer": [10**30],
    "too wide": np.array([1 + 1e-19], dtype=np.longdouble),
    "text": [str(ODD)],
    "bytes": b"\x00\x01",
    "a mix with text": [ODD, "0.5"],
    "None": None,
    "a missing value": [ODD, None],
    "a complex number": [ODD + 0j],
    "a masked array": np.ma.masked_array([ODD, 0.5], mask=[False, True]),
    "a scalar": ODD,
    "a table": [[ODD, 0.5]],
    "ragged": [[ODD], [0.5, 0.5]],
    "nothing": [],
    "a generator": (x for x in [ODD]),
    "a set": {ODD},
    "a mapping": {0: ODD},
    "dates": np.array(["2024-01-01"], dtype="datetime64[D]"),
    "records": np.array([(ODD,)], dtype=[("reward", float)]),
    "nullable": pd.Series([ODD, None], dtype="Float64"),
    "too many": [ODD] * 1000,
}


@pytest.fixture(scope="module")
def session():
    """A session that refuses every input, so that tests can share it."""
    session = Session(DP_BAI, noise=Deaf())
    session.record({next(iter(session.requests)): [0.5]})
    return session


def state_of(session):
    run = session._run
    return run.finished, run.phase, run.totals, run.batches, run.sums


def assert_refused(session, call, *, secrets=("0.731", "73.1")):
    before = state_of(session)
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert state_of(session) == before
    told = "".join(traceback.format_exception(caught.value, chain=True)).splitlines()
    said = "\n".join(line for line in told if not line.startswith("  "))
    assert not any(secret in said for secret in secrets)


@pytest.mark.parametrize("rewards", GOOD.values(), ids=GOOD)
def test_rewards_of_any_numeric_kind_are_recorded_exactly(rewards):
    session = Session(DP_BAI, noise=Deaf())
    arm = next(iter(session.requests))
    session.record({arm: rewards})
    expected = sum((Fraction(float(reward)) for reward in rewards), Fraction())
    assert session._run.totals[arm] == (expected, len(rewards))


@pytest.mark.parametrize("rewards", BAD.values(), ids=BAD)
def test_invalid_rewards_are_refused_as_a_whole_and_never_quoted(session, rewards):
    good, bad = list(session.requests)[:2]
    assert_refused(session, lambda: session.record({good: [0.5], bad: rewards}))


@pytest.mark.parametrize("arm", [-1, 10, 8.0, "0", None, True, 0.7310585786300049, (0,)])
def test_rewards_of_an_arm_that_is_not_requested_are_refused(session, arm):
    assert_refused(session, lambda: session.record({arm: [0.5]}))
    eliminated = next(arm for arm in range(ARMS) if arm not in session.requests)
    assert_refused(session, lambda: session.record({eliminated: [0.5]}))


@pytest.mark.parametrize(
    "rewards", [[0.7311], [[0.7311]], np.array([0.7311]), 0.7311, None, "ab", {1}]
)
def test_rewards_that_are_not_a_mapping_are_refused_and_never_quoted(session, rewards):
    for record in (session.record, session.record_sums):
        with pytest.raises(TypeError, match="must be a mapping from arms") as error:
            record(rewards)
        assert "7311" not in str(error.value)


@pytest.mark.parametrize(
    ("total", "count"),
    [
        (3.5, 3), (-0.1, 3), (math.nan, 3), (math.inf, 3), (ODD, 0), (ODD, -1), (ODD, 1.0),
        (3, ODD), (ODD, True), (True, 1), ("0.731", 1), (None, 1), (ODD + 0j, 1), ([ODD], 1),
        (np.longdouble(1) + np.finfo(np.longdouble).eps, 1), (Fraction(4, 3), 1), (0.5, 10**30),
        (np.longdouble(1) / 3, 1),
    ],
)  # fmt: skip
def test_sums_that_no_rewards_can_have_are_refused_and_never_quoted(session, total, count):
    if isinstance(total, np.longdouble) and float(total) == total:
        total = 2.0  # where a long double is a double, there is no such case
    good, bad = list(session.requests)[:2]
    assert_refused(session, lambda: session.record_sums({good: (0.5, 1), bad: (total, count)}))


def test_a_sum_in_the_place_of_its_count_is_not_quoted():
    session = begun(reward_range=(0, 1000))
    with pytest.raises(ValueError, match=r"arm 0 must be at most \d+ more") as error:
        session.record_sums({0: (3, 7310)})
    assert "7310" not in str(error.value)


def test_ten_thousand_malformed_inputs_are_all_refused(session):
    """Each input breaks one rule. The inputs are seeded, so there are no false alarms."""
    rng = random.Random(6)
    missing = session.requests
    asked = list(missing)

    def noisy(values):
        rng.shuffle(values)
        return values

    def outside():
        return rng.choice([
            -rng.random() - 1e-300, 1 + 2**-52 * rng.randint(1, 2**20), rng.uniform(1.001, 1e6),
            math.nan, math.inf, -math.inf, 10.0 ** rng.randint(1, 300), -5e-324, rng.randint(2, 9),
        ])  # fmt: skip

    def not_a_number():
        return rng.choice(["0.5", None, b"1", 0.5 + 1j, object(), [0.5], {}, (), "nan", 10**400])

    def some_rewards():
        return [rng.random() for _ in range(rng.randint(0, 5))]

    kinds = [
        lambda: session.record({rng.choice(asked): noisy([outside(), *some_rewards()])}),
        lambda: session.record({rng.choice(asked): noisy([not_a_number(), *some_rewards()])}),
        lambda: session.record({rng.choice([10, -1, "x", None, 0.5, True, 1e9]): [0.5]}),
        lambda: session.record({(arm := rng.choice(asked)): [0.5] * (missing[arm] + 1)}),
        lambda: session.record({rng.choice(asked): np.full((rng.randint(0, 2), 3), 0.5)}),
        lambda: session.record_sums({rng.choice(asked): (outside(), 1)}),
        lambda: session.record_sums({rng.choice(asked): (not_a_number(), 1)}),
        lambda: session.record_sums(
            {rng.choice(asked): (0.5, rng.choice([0, -1, 0.5, "1", None]))}
        ),
        lambda: session.record_sums({(arm := rng.choice(asked)): (0.5, missing[arm] + 1)}),
        lambda: session.record_sums({rng.choice(asked): rng.choice([(), (1,), (0.5, 1, 1), 0.5])}),
    ]
    before = state_of(session)
    accepted = 0
    for kind in itertools.islice(itertools.cycle(kinds), 10_000):
        try:
            kind()
        except (ValueError, TypeError):
            continue
        accepted += 1
    assert accepted == 0
    assert state_of(session) == before


# Rewards in another range.


def deliver(session, means, rng, scale=lambda rewards: rewards):
    """Record all requested rewards, 0 or 1 with the given means, after scaling."""
    batch = {arm: rng.random(pulls) < means[arm] for arm, pulls in session.requests.items()}
    session.record({arm: scale(rewards.astype(float)) for arm, rewards in batch.items()})


@pytest.mark.parametrize(("low", "high"), [(1, 5), (-3, 1), (0, 0.1), (-7.3, -2), (0, 2**50)])
def test_rewards_in_another_range_give_the_same_run_in_their_units(low, high, tmp_path):
    plain = rehearsal(path=tmp_path / "plain.json")
    scaled = rehearsal(path=tmp_path / "scaled.json", reward_range=(low, high))
    rngs = np.random.default_rng(0), np.random.default_rng(0)
    means = np.linspace(0.1, 0.9, ARMS)
    while plain.requests:
        assert scaled.requests == plain.requests
        deliver(plain, means, rngs[0])
        deliver(scaled, means, rngs[1], lambda rewards: np.where(rewards == 1, high, low))
        scaled = Session.resume(tmp_path / "scaled.json", noise=NumpyNoise(1))
    assert scaled.reward_range == (low, high)
    assert scaled.recommendation == plain.recommendation
    for ours, theirs in zip(scaled.released, plain.released, strict=True):
        assert ours.statistic == theirs.statistic
    for arm in range(ARMS):
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
    exact = sum((Fraction(x) - low) / (high - low) for x in rewards)
    assert session._run.totals[arm] == (exact, 4)
    with_sums = rehearsal(reward_range=(0.1, 0.7))
    with_sums.record_sums({arm: (sum(map(Fraction, rewards)), 4)})
    assert with_sums._run.totals == session._run.totals


@pytest.mark.parametrize(
    "bounds",
    [(1, 1), (5, 1), (math.nan, 1), (0, math.inf), (0,), (0, 1, 2), 5, "15", (0, 2.0**60), None],
)
def test_an_invalid_range_is_refused(bounds):
    with pytest.raises((ValueError, TypeError), match="reward_range"):
        rehearsal(reward_range=bounds)


@pytest.mark.parametrize("reward", [0.999, 5.001, 0, 6, math.nan])
def test_rewards_outside_their_range_are_refused_and_never_quoted(reward):
    session = rehearsal(reward_range=(1, 5))
    arm = next(iter(session.requests))
    with pytest.raises(ValueError, match=r"\[1, 5\]|finite") as error:
        session.record({arm: [3.0, reward]})
    assert str(reward) not in str(error.value)
    with pytest.raises(ValueError, match=r"\[1, 5\]|finite") as error:
        session.record_sums({arm: (reward, 1)})
    assert str(reward) not in str(error.value)
    assert session._run.totals[arm] == (0, 0)


@pytest.mark.parametrize("reward", [0, 2])
def test_integers_just_outside_a_range_are_refused(reward):
    session = begun(reward_range=(0.5, 1.5))
    session.record({0: [1]})
    with pytest.raises(ValueError, match="must lie in"):
        session.record({0: [reward]})


@given(data=st.data())
def test_every_decimal_total_of_rewards_in_a_decimal_range_is_accepted_and_none_beyond(data):
    """By hand, in thousandths; the ends of the range need not be doubles."""
    low, width = data.draw(st.integers(-2000, 2000)), data.draw(st.integers(1, 3000))
    count = data.draw(st.integers(1, 6))
    total = data.draw(st.integers(count * low, count * (low + width)) | st.just(count * low))
    session = begun(reward_range=(low / 1000, (low + width) / 1000))
    session.record_sums({0: (total / 1000, count)})
    exact = Fraction(total - count * low, width)
    total, _ = session._run.totals[0]
    assert 0 <= total <= count
    assert abs(total - exact) < Fraction(1, 10**9)
    for beyond in (count * low - 1, count * (low + width) + 1):
        with pytest.raises(ValueError, match="must be the sum of count rewards"):
            session.record_sums({1: (beyond / 1000, count)})


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("high", [0.1, 0.3, 0.6, 1.1, 2.2, 1e5])
@pytest.mark.parametrize("low", [0, -0.7])
def test_rewards_in_single_precision_may_be_at_an_end_of_their_range(kind, low, high, tmp_path):
    path = tmp_path / "run.json"
    session = begun(path, reward_range=(low, high))
    ends = np.array([low, high], dtype=kind) if high < 1e5 else np.array([low, low], dtype=kind)
    session.record({0: ends})
    again = Session.resume(path)
    total, count = again._run.totals[0]
    assert count == 2
    assert abs(total - (1 if high < 1e5 else 0)) < Fraction(1, 100)
    for wrong in (np.inf, -np.inf, np.nan, 1.01 * high):
        with np.errstate(over="ignore"), pytest.raises(ValueError, match="must lie in"):
            session.record({1: np.array([wrong], dtype=kind)})


# Batches: none twice, and how to undo one.


def test_a_batch_is_recorded_once_in_the_whole_run(tmp_path):
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
    rest = full(session, 0.5)
    session.record(rest, batch=3)
    assert len(session.released) == 1
    with pytest.raises(SessionError, match=r"'3' was recorded already, in phase 1"):
        session.record({next(iter(session.requests)): [0.5]}, batch="3")
    with pytest.raises(TypeError, match="batch must be"):
        session.record({next(iter(session.requests)): [0.5]}, batch=0.5)


def test_a_batch_that_is_undone_leaves_no_trace(tmp_path):
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


def test_rewards_recorded_in_parts_remain_after_a_batch_is_undone_or_an_arm_withdrawn():
    session = begun()
    session.record({0: [0.5]})
    session.record({0: [0.25]})
    session.record({1: [0.5]}, batch="mistake")
    session.undo("mistake")
    assert session._run.totals == {0: (Fraction(3, 4), 2), 1: (0, 0), 2: (0, 0)}
    session.record({0: [0.125]})
    session.withdraw(2)
    assert session._run.totals[0] == (Fraction(7, 8), 3)


def test_only_a_whole_batch_of_the_current_phase_can_be_undone():
    """Only its name is given, so a refusal reveals nothing about its rewards."""
    session = rehearsal()
    first = next(iter(session.requests))
    session.record({first: [0.5]}, batch="a")
    session.record({first: [0.25]})  # has no name
    before = session.requests
    for name, said in (("b", "; the batches are: 'a'"), ("", "not empty"), (0.5, "must be")):
        with pytest.raises((SessionError, ValueError, TypeError), match=said) as error:
            session.undo(name)
        assert "0.5" not in str(error.value)
    assert session.requests == before
    session.record(full(session, 0.5))
    session.record({next(iter(session.requests)): [0.5]})
    with pytest.raises(
        SessionError, match="'a' cannot be undone: it is in phase 1, which has been released"
    ):
        session.undo("a")
    assert session.batches == {"a": Batch(1, {first: 1})}


# A phase that is ended before it has all its rewards.


LONGER_IN_L1 = np.array([[3.0, 6.0], [4.0, 0.0]])  # its first column, but not in L2


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_fewer_rewards_cost_no_more_privacy_whatever_their_numbers(data):
    """By OpenDP's account and by the law of the noise, which is not wider than necessary."""
    plans = [
        POLICIES[name].phase(1, range(ARMS)) for name in ("DPBAI", "DPBAIGauss", "DPOD", "DPDesign")
    ]
    plans += [
        Phase(1, (0, 1), (0, 1), (4, 4), noise, 1, LONGER_IN_L1, np.eye(2), delta=1e-3)
        for noise in (Laplace(4.0), Gaussian(4.0))
    ]
    phase = data.draw(st.sampled_from(plans))
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
    """The squares overflow or underflow. A release that is 0 needs no wider noise."""
    release = np.array([[1.0, 0.5], [0.0, 2.0]]) * unit
    plan = Phase(1, (0, 1), (0, 1), (4, 4), noise, 1, release, np.eye(2), delta=1e-3)
    fewer = shortened(plan, (4, 1))
    assert fewer.loss() <= plan.loss()
    factor = fewer.noise.standard_deviation / noise.standard_deviation
    assert factor == pytest.approx(4.0 if unit else 1.0)


@pytest.mark.parametrize("noise", [Laplace(0.3), Gaussian(0.3)], ids=repr)
def test_the_scale_of_the_widened_noise_is_never_rounded_down(noise):
    """In exact numbers: of n rewards, k are there, and each changes a mean by 1/k."""
    for n, k in itertools.combinations(range(20, 0, -1), 2):
        plan = Phase(1, (0, 1), (0, 1), (n, n), noise, 1, delta=1e-3)
        wider = shortened(plan, (k, n)).noise
        scale = wider.scale if isinstance(wider, Laplace) else wider.sigma
        assert Fraction(scale) >= Fraction(0.3) * n / k


def shifts_of(plan):
    """How much one reward of each arm changes the release, as fractions."""
    return [
        tuple(abs(Fraction(entry)) / pulls for entry in column if entry)
        for column, pulls in zip(plan.release.T.tolist(), plan.pulls, strict=True)
    ]


@pytest.mark.parametrize("name", POLICIES)
def test_a_phase_that_is_ended_early_releases_means_of_the_rewards_so_far(name, tmp_path):
    """By hand: the means, and noise in proportion. A resumed run continues in the same way."""
    policy, path = POLICIES[name], tmp_path / "run.json"
    session = Session(policy, noise=NumpyNoise(4), path=path)
    plan = policy.phase(1, range(ARMS))
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
    assert standard_deviations(session.phases) == pytest.approx(deviation, abs=1e-12)
    again = Session.resume(path, noise=NumpyNoise(4))
    assert (again.requests, again.deviations) == (session.requests, session.deviations)
    assert again.certificate == session.certificate
    assert session.certificate.epsilon == Session(policy, noise=NumpyNoise(4)).certificate.epsilon
    finished(again, rng)
    assert again.finished


def test_how_much_the_noise_is_widened_depends_on_no_reward(tmp_path):
    runs = []
    for reward in (0.0, 1.0):
        session = rehearsal(path=tmp_path / f"{reward}.json")
        session.record({arm: [reward] * (n - 1) for arm, n in session.requests.items()})
        session.end_phase()
        runs.append((session.phases[0].noise, session.released[0].pulls))
    assert runs[0] == runs[1]


def test_a_phase_is_not_ended_without_a_reward_of_each_arm():
    session = rehearsal()
    first, second = list(session.requests)[:2]
    session.record({first: [0.5]})
    with pytest.raises(SessionError, match=f"at least one reward, and {second} has none"):
        session.end_phase()
    assert session.released == ()
    finished(session, 0.5)
    with pytest.raises(SessionError, match="finished"):
        session.end_phase()


def test_noise_of_an_unknown_kind_is_not_widened():
    plan = DP_BAI.phase(1, range(ARMS))
    odd = replace(plan, noise=Triangular(1.0))
    with pytest.raises(TypeError, match="Triangular noise cannot be ended early"):
        shortened(odd, (1,) * len(plan.pulls))


def test_a_phase_is_not_ended_with_more_rewards_than_were_planned():
    plan = DP_BAI.phase(1, range(ARMS))
    with pytest.raises(ValueError, match="at most those that were planned"):
        shortened(plan, tuple(pulls + 1 for pulls in plan.pulls))


# An arm that is withdrawn.


def test_missing_rewards_of_a_withdrawn_arm_count_as_the_middle_and_nothing_else_changes(
    tmp_path,
):
    """By hand: the plan, its noise and its loss are unchanged, and the arm is eliminated."""
    path = tmp_path / "run.json"
    session, noise = begun(path, reward_range=(1, 5)), NumpyNoise(1)
    plan = session.phase
    session.record({0: [5, 5], 1: [2, 3, 4]}, batch="early")
    session.withdraw(0)
    assert session.withdrawn == (0,)
    assert set(session.requests) == {1, 2}
    with pytest.raises(ValueError, match="requested now"):
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


@pytest.mark.parametrize("name", ["DPBAI", "DPDesign", "DPOD", "Baseline"])
def test_a_run_without_its_withdrawn_arms_ends_and_never_recommends_them(name, tmp_path):
    path, policy = tmp_path / "run.json", POLICIES[name]
    session = begun(path, policy)
    gone = list(session.requests)[:3]
    for arm in gone:
        session.withdraw(arm)
    with pytest.raises(SessionError, match="only an arm that is in play"):
        session.withdraw(gone[0])
    rng = np.random.default_rng(0)
    while session.requests:
        assert not set(session.requests) & set(gone)
        session.record(full(session, rng))
        session = Session.resume(path, noise=NumpyNoise(1))
    assert session.recommendation not in gone
    assert session.certificate.epsilon <= 0.5 * (1 + 1e-9)
    assert sum(phase.cost for phase in session.phases) <= policy.budget


def test_a_phase_that_is_ended_early_with_a_withdrawn_arm_is_as_private_as_planned():
    """The middle replaces its rewards; the noise is widened for the missing rewards of others."""
    session = begun(policy=dpbai.Baseline(np.eye(4), budget=40, epsilon=1.0))
    plan, n = session.phase, session.phase.pulls[0]
    session.record({0: [1.0] * 2} | {arm: [1.0] * (n - 1) for arm in (1, 2, 3)})
    session.withdraw(0)
    session.end_phase()
    assert session.released[0].pulls == (2, n - 1, n - 1, n - 1)
    assert session.phases[0].pulls == (n, n - 1, n - 1, n - 1)
    assert session.phases[0].noise.scale == pytest.approx(plan.noise.scale * n / (n - 1))
    assert session.released[0].epsilon <= plan.loss() * (1 + 1e-12)


def test_phases_that_pull_only_withdrawn_arms_are_released_at_once():
    """The only arm of the second phase is withdrawn in the first, with which the run then ends."""
    for end in (lambda session: session.record(full(session)), Session.end_phase):
        session = begun(policy=Outsider(np.eye(4), 40))
        session.record({arm: [0.5] for arm in range(3)})
        session.withdraw(3)
        end(session)
        assert [phase.pulled for phase in session.phases] == [(0, 1, 2, 3), (3,)]
        assert session.finished


def test_the_release_of_an_arm_without_rewards_depends_on_no_reward():
    """A phase that lacks only rewards of that arm is released when the arm is withdrawn."""
    statistics = []
    for reward in (0.0, 1.0):
        session = begun(policy=dpbai.Baseline(np.eye(4), budget=40, epsilon=1.0))
        session.record({arm: [reward] * n for arm, n in session.requests.items() if arm})
        session.withdraw(0)
        statistics.append(session.released[0].statistic)
    assert statistics[0][0] == statistics[1][0]
    assert statistics[0][1] != statistics[1][1]


def test_at_least_two_arms_remain():
    session = begun()
    session.withdraw(2)
    for arm in (0, 1, 5, "0", None, 0.5):
        with pytest.raises(SessionError, match=r"at least two arms|only an arm that is in play"):
            session.withdraw(arm)
    with pytest.raises(SessionError, match="finished"):
        finished(session).withdraw(0)


@dataclass(frozen=True, eq=False)
class Outsider:
    """Pulls all arms, and then one that was eliminated."""

    features: np.ndarray
    budget: int

    def phase(self, index, active):
        if index == 1:
            return Phase(1, active, active, (5,) * 4, Laplace(0.2), 2)
        decoder = np.array([[1.0], [-1.0]])
        return Phase(2, active, (3,), (5,), Laplace(0.2), 1, decoder_matrix=decoder)


# The guarantee.


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_certificate_covers_all_active_sets_and_not_only_those_of_this_run(norm):
    """By hand: L1 norms over scales, for all three-phase histories of five arms."""
    features = np.random.default_rng(3).normal(size=(5, 4)).round(2)
    policy = dpbai.DPOD(features, budget=100, epsilon=0.5, norm=norm)

    def dearest(index, active):
        plan = policy.phase(index, active)
        columns = np.abs(plan.release).sum(axis=0) / np.array(plan.pulls)
        loss = columns.max() / plan.noise.scale
        if plan.keep == 1:
            return loss
        rest = itertools.combinations(active, plan.keep)
        return max(loss, *(dearest(index + 1, survivors) for survivors in rest))

    by_hand = dearest(1, range(5))
    session = begun(policy=policy)
    assert session.certificate.planned_epsilon == pytest.approx(by_hand, rel=1e-12)
    assert session.certificate.epsilon == pytest.approx(by_hand, rel=1e-12)
    finished(session, np.random.default_rng(0))
    assert session.certificate.epsilon == pytest.approx(by_hand, rel=1e-12)
    assert session.certificate.epsilon >= max(phase.epsilon for phase in session.released)
    assert session.certificate.released == len(session.released)


@pytest.mark.parametrize("name", POLICIES)
def test_the_certificate_plans_what_the_policy_certifies(name):
    session = Session(POLICIES[name])
    certified = dpbai.certificate(POLICIES[name])
    assert session.certificate.planned_epsilon == certified.epsilon
    assert session.certificate.delta == certified.delta
    assert session.certificate.epsilon >= certified.epsilon
    finished(session, np.random.default_rng(0))
    assert session.certificate.epsilon >= max(phase.epsilon for phase in session.released)


def test_the_certificate_covers_the_releases_if_the_active_sets_are_too_many_to_list():
    """It was not computed for the survivors of this run, and their phase has other noise."""
    half = tuple(range(20))

    class Partial(dpbai.DPBAIGauss):
        def phase(self, index, active):
            delta = 0.2 if tuple(active) == half else 0.01
            noise = Gaussian(1e-3 if index == 1 else 0.2 if tuple(active) == half else 1.0)
            keep, pulls = (20, 1) if index == 1 else (1, 2)
            return Phase(index, active, active, (pulls,) * len(active), noise, keep, delta=delta)

    session = begun(policy=Partial(np.eye(40), budget=3000, epsilon=1.0, delta=0.01))
    assert (session.certificate.complete, session.certificate.delta) == (False, 0.01)
    assert "may have other plans" in str(session.certificate)
    assert "other plans" not in str(begun().certificate)
    session.record({arm: [arm in half] * n for arm, n in session.requests.items()})
    session.record({arm: [arm in half] * n for arm, n in session.requests.items()})
    assert session.released[1].active == half
    assert (session.certificate.released, session.certificate.delta) == (2, 0.2)
    for group in (1, 2):
        visited = dpbai.certify(session.phases, group=group, mechanism=session.noise)
        assert session.group_certificate(group).losses[1] == visited.losses[1]


@pytest.mark.parametrize("name", ["DPBAI without noise", "ODLinBAI"])
def test_a_release_without_noise_is_certified_as_not_private(name):
    session = Session(POLICIES[name])
    finished(session, np.random.default_rng(0))
    assert session.certificate.epsilon == math.inf
    assert "is not private" in str(session.certificate)


def test_the_certificate_names_numpy_noise_and_a_fixed_seed():
    session = begun(policy=DP_BAI)
    finished(session, np.random.default_rng(0))
    assert "NumPy noise is for simulation" in str(session.certificate)
    assert "fixed seed" in str(session.certificate)


def test_opendp_is_the_default_and_its_certificate_has_no_remark():
    session = Session(DP_BAI)
    finished(session, np.random.default_rng(0))
    assert session.certificate.mechanism == OpenDPNoise.name
    assert session.certificate.remarks == ()
    assert 0.5 <= session.certificate.epsilon <= 0.5 * (1 + 1e-12)


class Odd:
    """From the second phase on, its noise is of a law that OpenDP does not have."""

    def __init__(self, inner):
        self.features, self.budget, self.inner = inner.features, inner.budget, inner

    def phase(self, index, active):
        plan = self.inner.phase(index, active)
        if index == 1:
            return plan
        noise = Triangular(plan.noise.scale)
        object.__setattr__(plan, "noise", noise)
        return plan


def test_noise_that_its_source_does_not_have_is_refused_at_the_start(monkeypatch):
    original = OpenDPNoise.loss

    def picky(self, noise, shift, delta):
        if isinstance(noise, Triangular):
            raise TypeError("OpenDP has no measurement for Triangular noise")
        return original(self, noise, shift, delta)

    monkeypatch.setattr(OpenDPNoise, "loss", picky)
    wide = dpbai.DPBAI(np.eye(3), budget=60, epsilon=1.0)
    Session(wide)
    with pytest.raises(TypeError, match="no measurement for Triangular"):
        Session(Odd(wide))


@pytest.mark.parametrize("epsilon", [1e3, 1e5, 1e6, 1e9])
def test_gaussian_noise_has_a_certificate_at_every_epsilon(epsilon):
    """Never below the loss of the law of the noise, and above it by at most a fifth."""
    policy = dpbai.DPBAIGauss(
        np.eye(3), budget=40, epsilon=epsilon, delta=1e-5, calibration="analytic"
    )
    session = Session(policy)
    session.record(full(session))
    certificate = session.certificate
    assert certificate.planned_epsilon <= certificate.epsilon <= 1.2 * certificate.planned_epsilon
    assert math.isfinite(session.released[0].epsilon)
    assert isinstance(policy.phase(1, range(3)).noise, Gaussian)


def test_the_guarantee_of_several_rewards_is_that_of_the_policy():
    session = finished(rehearsal())
    for group in (1, 2, 5):
        expected = dpbai.certificate(session.policy, group=group, mechanism=session.noise)
        found = session.group_certificate(group)
        assert found.epsilon == pytest.approx(expected.epsilon)
        assert (found.group, found.released) == (group, len(session.released))
    with pytest.raises(ValueError, match="group"):
        session.group_certificate(0)


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
    vague = dpbai.DPBAIGauss(np.eye(3), budget=40, epsilon=1.0, delta=0.4)
    assert ledger([begun(policy=vague) for _ in range(3)]).delta == 1
    with pytest.raises(ValueError, match="at least one run"):
        ledger([])


# An interval for the mean of the answer.


@pytest.mark.parametrize("noise", [Laplace(0.1), Gaussian(0.1)], ids=repr)
@pytest.mark.parametrize("came", [20, 5])
def test_the_errors_of_noise_and_sampling_are_within_their_bounds_for_equal_arms(noise, came):
    """The answer is the arm with the largest error: 50 000 runs, six standard errors (1e-9).

    With noise alone, an interval for an arm that was named beforehand would be missed four times as
    often. A withdrawn arm has `came` of 20 rewards, and the middle for the others.
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


def test_the_interval_of_a_policy_that_remembers_contains_the_mean_of_its_answer():
    """Equal arms, 30 runs at 90 %: fewer than 15 hits have probability 1e-8."""
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


def test_the_interval_accounts_for_the_errors_of_all_remembered_phases():
    """By hand: the weight of each mean of two equal arms in three phases is a sixth."""
    sigmas, pulls, level = (0.1, 0.2, 0.4), (10, 20, 40), 0.1 / 2
    arms = (0, 1)
    phases = [
        Phase(p, arms, arms, (n,) * 2, Gaussian(sigma), 2 if p < 3 else 1,
              decoder_matrix=np.full((2, 2 * p), 1 / (2 * p)), remembered=2 * (p - 1))
        for p, sigma, n in zip((1, 2, 3), sigmas, pulls, strict=True)
    ]  # fmt: skip
    counts = [[n] * 2 for n in pulls]
    noise, sampling, deviations = half_widths(phases, counts, np.ones((2, 1)), 1, 0.9)
    # Six numbers have noise, and six means are of rewards. Errors of the phases that chose the arms
    # are bounded for any weights, so they add up; the squares of those of the last phase add up.
    each = np.array([1 / 3, 1 / 3, math.sqrt(2) / 6])
    assert noise == pytest.approx(NormalDist().inv_cdf(1 - level / 12) * (each @ sigmas))
    factor = math.sqrt(math.log(2 * 6 / level) / 2)
    assert sampling == pytest.approx(factor * (each @ (1 / np.sqrt(pulls))))
    assert deviations == 0


@dataclass(frozen=True, eq=False)
class Halfway:
    """Pulls two arms, and estimates a third as their mean."""

    features: np.ndarray
    budget: int
    misfit: float

    def phase(self, index, active):
        decoder = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
        return Phase(index, active, (0, 1), (10, 10), Laplace(1e-6), 1, decoder_matrix=decoder)


def test_the_interval_accounts_for_an_arm_that_was_withdrawn_and_for_the_misfit_of_the_policy():
    """By hand, in units of 4: the answer, the third arm, uses 4 of 10 rewards of the first."""
    features = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    session = begun(policy=Halfway(features, 20, misfit=0.05), reward_range=(1, 5))
    session.record({0: [5] * 4, 1: [1] * 10})
    session.withdraw(0)
    assert session.recommendation == 2
    found, level = session.interval(0.9), 0.1 / 3
    factor = math.sqrt(math.log(2 * 3 / level) / 2)
    spread = 0.5 * math.hypot(math.sqrt(4) / 10, math.sqrt(10) / 10)
    assert found.sampling == pytest.approx(4 * (factor * spread + 0.5 * (6 / 10) / 2))
    assert found.noise == pytest.approx(4 * _quantile(Laplace(1e-6), np.full(2, 0.5), level / 3))
    quantile = NormalDist().inv_cdf(1 - level / 6)
    assert found.deviations == pytest.approx(4 * 0.05 * quantile * (0.5 + 0.5 + 1))
    reach = found.noise + found.sampling + found.deviations
    estimate = session.estimates[2]
    assert (found.low, found.high) == pytest.approx((estimate - reach, estimate + reach))
    assert session.interval(0.9, misfit=0).deviations == 0


def test_without_noise_the_interval_is_that_of_hoeffding():
    """Two sides and two arms; half of the error probability is for sampling, half for noise."""
    policy = dpbai.Baseline(np.eye(2), budget=100, epsilon=np.inf)
    session = finished(begun(policy=policy))
    interval, pulls = session.interval(0.9), session.phases[0].pulls[0]
    half = np.sqrt(np.log(2 * 2 / 0.05) / (2 * pulls))
    assert (interval.noise, interval.sampling) == (0.0, pytest.approx(half))
    assert interval.low == pytest.approx(0.25 - half)
    noisy = finished(begun(policy=dpbai.Baseline(np.eye(2), budget=100, epsilon=1.0)))
    assert noisy.interval(0.9).noise == pytest.approx(np.log(2 / 0.05) / pulls)
    assert noisy.interval(0.9).sampling == pytest.approx(half)


def test_a_policy_of_a_user_with_slots_has_the_interval_of_what_it_plans():
    @dataclass(frozen=True, slots=True)
    class Own:
        features: np.ndarray
        budget: int

        def phase(self, p, active):
            return dpbai.Baseline(self.features, budget=self.budget, epsilon=1.0).phase(p, active)

    theirs = finished(begun(policy=dpbai.Baseline(np.eye(3), budget=60, epsilon=1.0)))
    assert finished(begun(policy=Own(np.eye(3), 60))).interval() == theirs.interval()


def test_the_bound_on_sums_of_laplace_noise_holds_and_is_not_loose():
    """100 000 draws: it is exceeded with probability at most 5 %, and at least 0.2 %."""
    weights, scale = np.array([1.0, -2.0, 0.5, 0.0]), 3.0
    bound = _quantile(dpbai.Laplace(scale), weights, 0.05)
    drawn = np.random.default_rng(0).laplace(scale=scale, size=(100_000, 4)) @ weights
    assert 0.002 < np.mean(np.abs(drawn) > bound) < 0.05


def test_noise_of_another_law_is_bounded_by_its_variance():
    """Chebyshev's inequality, for a sum of two."""
    noise = Triangular(2.0)
    bound = noise.standard_deviation * 5 / math.sqrt(0.05)
    assert _quantile(noise, np.array([3.0, -4.0]), 0.05) == pytest.approx(bound)


def test_an_interval_is_refused_if_only_differences_are_released():
    session = begun(policy=dpbai.DPDesign(np.eye(2), budget=100, epsilon=1.0))
    with pytest.raises(SessionError, match="not finished"):
        session.interval()
    with pytest.raises(SessionError, match="differences of means, which do not determine"):
        finished(session).interval()
    for confidence in (0, 1, np.nan):
        with pytest.raises(ValueError, match="confidence"):
            session.interval(confidence)
