"""Sessions: what they ask for, take, release, save and refuse."""

import itertools
import json
import math
import random
import threading
import traceback
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpbai
from dpbai.field.session import NumpyNoise, OpenDPNoise, Session, SessionError
from dpbai.field.session import store as session_store
from dpbai.noise import Gaussian, NoNoise
from dpbai.phase import Phase
from dpbai.plans import Stage

pytestmark = pytest.mark.filterwarnings("ignore::dpbai.field.session.ReleaseWarning")

ARMS = 10
FEATURES = np.random.default_rng(7).normal(size=(ARMS, 3)).round(2)
POLICIES = {
    "DPBAI": dpbai.DPBAI(FEATURES, budget=150, epsilon=0.5),
    "DPBAI without noise": dpbai.DPBAI(FEATURES, budget=150, epsilon=math.inf),
    "DPBAIGauss": dpbai.DPBAIGauss(FEATURES, budget=150, epsilon=0.5, delta=1e-5),
    "Baseline": dpbai.Baseline(FEATURES, budget=150, epsilon=0.5),
    "ODLinBAI": dpbai.ODLinBAI(FEATURES, budget=150),
    "DPDesign": dpbai.DPDesign(FEATURES, budget=150, epsilon=0.5, phases=3),
    "DPOD": dpbai.DPOD(FEATURES, budget=150, epsilon=0.5, norm="l1"),
}
every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def finish(session, rng):
    """Give a session uniform rewards until it is finished; return them by phase and arm."""
    given_rewards = []
    while session.requests:
        batch = {arm: rng.random(pulls) for arm, pulls in session.requests.items()}
        given_rewards.append(batch)
        session.record(batch)
    return given_rewards


@dataclass(frozen=True)
class Deaf:
    """A source of noise that drowns what it is added to: the release is always the same."""

    name: str = "deaf"
    remarks: tuple[str, ...] = ()

    def add(self, _noise, statistic, *, phase):
        return tuple(float(phase + i) for i in range(len(statistic)))

    def loss(self, noise, shift, delta):
        return noise.loss(shift, delta)


# What a session asks for, and what it makes of the answer.


@every_policy
def test_a_session_follows_the_plan_of_its_policy_phase_by_phase(policy):
    session = Session(policy, noise=NumpyNoise(1))
    rng = np.random.default_rng(2)
    active, index, spent = tuple(range(ARMS)), 0, 0
    stage, so_far = Stage.first(policy), []
    while len(active) > 1:
        index += 1
        plan = stage.phase
        assert session.requests == dict(zip(plan.pulled, plan.pulls, strict=True))
        batch = {arm: rng.random(pulls) for arm, pulls in session.requests.items()}
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
        stage = stage.then(active)
        spent += sum(plan.pulls)
    assert session.finished
    assert session.requests == {}
    assert (session.recommendation,) == active
    assert spent <= policy.budget


def test_an_estimate_is_from_the_last_phase_that_has_one():
    session = Session(POLICIES["DPBAI"], noise=NumpyNoise(1))
    finish(session, np.random.default_rng(0))
    first, last = session.released[0], session.released[-1]
    assert set(session.estimates) == set(range(ARMS))
    assert session.recommendation in last.active
    for arm, estimate in zip(last.active, last.estimates, strict=True):
        assert session.estimates[arm] == estimate
    gone = set(first.active) - set(first.survivors)
    for arm in gone:
        assert session.estimates[arm] == first.estimates[first.active.index(arm)]


@settings(max_examples=20)
@given(data=st.data())
def test_rewards_in_any_order_and_parts_give_the_same_file(data, tmp_path_factory):
    policy = POLICIES["DPBAI"]
    # Doubles of very different size: any rounding of a partial sum would show.
    rng = np.random.default_rng(5)
    pool = {arm: (rng.random(150) ** rng.integers(1, 40, 150)).tolist() for arm in range(ARMS)}
    folder = tmp_path_factory.mktemp("parts")
    whole = Session(policy, noise=NumpyNoise(3), path=folder / "whole.json")
    parts = Session(policy, noise=NumpyNoise(3), path=folder / "parts.json")
    for _ in range(data.draw(st.integers(1, 2), label="phases")):
        batch = {arm: pool[arm][:pulls] for arm, pulls in whole.requests.items()}
        whole.record(batch)
        pieces = []
        for arm, rewards in batch.items():
            shuffled = data.draw(st.permutations(rewards))
            cut = data.draw(st.integers(1, len(rewards)))
            pieces += [(arm, piece) for piece in (shuffled[:cut], shuffled[cut:]) if piece]
        for arm, piece in data.draw(st.permutations(pieces)):
            if data.draw(st.booleans()):
                parts.record({arm: piece})
            else:
                parts.record_sums({arm: (sum(map(Fraction, piece)), len(piece))})
    assert (folder / "whole.json").read_bytes() == (folder / "parts.json").read_bytes()


def test_labels_name_the_arms_everywhere():
    names = [f"variant {letter}" for letter in "ABCDEFGHIJ"]
    named = Session(POLICIES["DPBAI"], noise=NumpyNoise(1), labels=names)
    plain = Session(POLICIES["DPBAI"], noise=NumpyNoise(1))
    rng = np.random.default_rng(0)
    while plain.requests:
        batch = {arm: rng.random(pulls) for arm, pulls in plain.requests.items()}
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
        Session(POLICIES["DPBAI"], noise=NumpyNoise(1), labels=labels)


# The guarantee.


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_certificate_covers_all_active_sets_and_not_only_those_that_came_to_be(norm):
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
    session = Session(policy, noise=NumpyNoise(1))
    assert session.certificate.planned_epsilon == pytest.approx(by_hand, rel=1e-12)
    assert session.certificate.epsilon == pytest.approx(by_hand, rel=1e-12)
    finish(session, np.random.default_rng(0))
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
    finish(session, np.random.default_rng(0))
    assert session.certificate.epsilon >= max(phase.epsilon for phase in session.released)


def test_the_certificate_says_when_the_active_sets_are_too_many_to_list():
    features = np.random.default_rng(0).normal(size=(14, 8))
    session = Session(dpbai.DPOD(features, budget=400, epsilon=1.0), noise=NumpyNoise(1))
    assert not session.certificate.complete
    assert "may be other plans" in str(session.certificate)
    assert "other plans" not in str(Session(POLICIES["DPBAI"], noise=NumpyNoise(1)).certificate)


def test_what_was_released_counts_where_the_active_sets_are_too_many_to_list():
    """The certificate has not looked at the survivors of this run, and their noise is another."""
    half = tuple(range(20))

    class Partial(dpbai.DPBAIGauss):
        def phase(self, index, active):
            noise = Gaussian(1e-3 if index == 1 else 1.0)
            delta = 0.2 if tuple(active) == half else 0.01
            keep, pulls = (20, 1) if index == 1 else (1, 2)
            return Phase(index, active, active, (pulls,) * len(active), noise, keep, delta=delta)

    session = Session(
        Partial(np.eye(40), budget=3000, epsilon=1.0, delta=0.01), noise=NumpyNoise(0)
    )
    assert (session.certificate.complete, session.certificate.delta) == (False, 0.01)
    while session.requests:
        session.record({arm: [arm in half] * n for arm, n in session.requests.items()})
    assert session.released[1].active == half
    assert (session.certificate.released, session.certificate.delta) == (2, 0.2)


@pytest.mark.parametrize("name", ["DPBAI without noise", "ODLinBAI"])
def test_a_release_without_noise_is_certified_as_no_privacy(name):
    session = Session(POLICIES[name])
    finish(session, np.random.default_rng(0))
    assert session.certificate.epsilon == math.inf
    assert "no privacy" in str(session.certificate)


def test_the_certificate_names_numpy_noise_and_a_fixed_seed():
    session = Session(POLICIES["DPBAI"], noise=NumpyNoise(1))
    finish(session, np.random.default_rng(0))
    assert "NumPy noise is for simulation" in str(session.certificate)
    assert "fixed seed" in str(session.certificate)


def test_opendp_is_the_default_and_its_certificate_has_no_remark():
    session = Session(POLICIES["DPBAI"])
    finish(session, np.random.default_rng(0))
    assert session.certificate.mechanism == OpenDPNoise.name
    assert session.certificate.remarks == ()
    assert 0.5 <= session.certificate.epsilon <= 0.5 * (1 + 1e-12)


# The file.


@every_policy
def test_a_session_that_is_resumed_at_every_step_ends_like_one_that_is_not(policy, tmp_path):
    rng = np.random.default_rng(4)
    straight = Session(policy, noise=NumpyNoise(9))
    path = tmp_path / "session.json"
    stepwise = Session(policy, noise=NumpyNoise(9), path=path)
    while straight.requests:
        batch = {arm: rng.random(pulls) for arm, pulls in straight.requests.items()}
        straight.record(batch)
        for arm, rewards in batch.items():
            for half in np.array_split(rewards, 2):
                if half.size:
                    stepwise.record({arm: half})
                    shown = stepwise.requests, stepwise.released, stepwise.estimates
                    stepwise = Session.resume(path, noise=NumpyNoise(9))
                    again = stepwise.requests, stepwise.released, stepwise.estimates
                    assert shown == again
    assert stepwise.finished
    assert stepwise.released == straight.released
    assert stepwise.recommendation == straight.recommendation
    assert stepwise.certificate == straight.certificate


def test_once_a_phase_is_released_the_file_depends_on_the_release_alone(tmp_path):
    """Two sets of rewards with nothing in common, and one release: the same bytes."""
    files = []
    for number, seed in enumerate((1, 2)):
        rng = np.random.default_rng(seed)
        session = Session(POLICIES["DPBAI"], noise=Deaf(), path=tmp_path / f"{number}.json")
        for _ in range(2):
            batch = {arm: rng.random(pulls) for arm, pulls in session.requests.items()}
            for arm, rewards in batch.items():
                session.record({arm: rewards[:2]})
                session.record({arm: rewards[2:]})
            files.append((tmp_path / f"{number}.json").read_bytes())
    first, second = files[:2], files[2:]
    assert first == second
    assert first[0] != first[1]


def test_of_a_phase_under_way_the_file_depends_on_sums_and_counts_alone(tmp_path):
    files = []
    for number, rewards in enumerate(([0.5, 0.5, 0.5], [0.125, 0.375, 1.0], [0.0, 1.0, 0.5])):
        path = tmp_path / f"{number}.json"
        session = Session(POLICIES["DPBAI"], noise=Deaf(), path=path)
        session.record({next(iter(session.requests)): rewards})
        files.append(path.read_bytes())
    assert len(set(files)) == 1


def test_the_file_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "session.json"
    session = Session(POLICIES["DPBAI"], noise=Deaf(), path=path)
    session.record({next(iter(session.requests)): [0.5]})
    assert path.stat().st_mode & 0o077 == 0


def test_a_new_session_never_overwrites_a_file(tmp_path):
    path = tmp_path / "session.json"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match=r"session\.json exists already"):
        Session(POLICIES["DPBAI"], noise=Deaf(), path=path)
    assert path.read_text() == "precious"


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Session.resume(tmp_path / "none.json", noise=Deaf())
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def begun(tmp_path):
    """A file in its second phase, small enough to try every edit of it."""
    path = tmp_path / "session.json"
    policy = dpbai.DPBAI(np.eye(3), budget=40, epsilon=1.0)
    session = Session(policy, noise=Deaf(), path=path)
    session.record({arm: [0.25] * pulls for arm, pulls in session.requests.items()})
    session.record({next(iter(session.requests)): [0.5]})
    return path


def refused(path):
    """Return whether a file is refused, in one line, and left as it is."""
    before = path.read_bytes()
    try:
        Session.resume(path, noise=Deaf())
    except SessionError as error:
        message = str(error)
    else:
        return False
    return "\n" not in message and path.read_bytes() == before


def test_a_file_that_was_cut_short_is_refused_wherever_it_was_cut(begun):
    data = begun.read_bytes()
    assert not refused(begun)
    for length in range(len(data)):
        begun.write_bytes(data[:length])
        assert refused(begun), length


def test_a_file_with_any_one_byte_changed_or_added_is_refused(begun):
    data = begun.read_bytes()
    rng = random.Random(0)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << rng.randrange(8)
        begun.write_bytes(changed)
        assert refused(begun), place
        begun.write_bytes(data[:place] + rng.choice([b" ", b"0", b'"', b"\n"]) + data[place:])
        assert refused(begun), place


def test_files_that_are_no_sessions_are_refused(begun):
    for text in (
        "", "null", "[]", "{}", "3", "NaN", "[" * 100_000, "\x00", "{\"format\": 3}", "1" * 5000,
        '{"format": "dpbai session"}', '{"format": "dpbai session", "version": 3}',
        '{"format": "dpbai session", "version": 3, "checksum": "", "content": null}',
        '{"format": "dpbai session", "version": 3, "checksum": "", "content": NaN}',
    ):  # fmt: skip
        begun.write_text(text)
        assert refused(begun), text[:60]
    begun.write_bytes(b"\xff\xfe\x00")
    assert refused(begun)


def test_a_file_of_version_0_2_says_which_program_goes_on_with_it(begun):
    begun.write_text(begun.read_text().replace('"version": 3', '"version": 2'))
    with pytest.raises(SessionError, match=r"has version 2 .* reads version 3: .* \(0\.2 for"):
        Session.resume(begun, noise=Deaf())


@pytest.mark.parametrize(
    "other",
    [
        dpbai.DPBAI(np.eye(3), budget=41, epsilon=1.0),
        dpbai.DPBAI(np.eye(3), budget=40, epsilon=1.1),
        dpbai.DPBAI(np.eye(3), budget=40, epsilon=math.inf),
        dpbai.DPBAI(np.eye(3), budget=40, epsilon=1.0, convention="proof"),
        dpbai.DPBAI(np.diag([1, 1, 1 + 1e-15]), budget=40, epsilon=1.0),
        dpbai.DPBAI(np.eye(4), budget=40, epsilon=1.0),
        dpbai.Baseline(np.eye(3), budget=40, epsilon=1.0),
        dpbai.DPBAIGauss(np.eye(3), budget=40, epsilon=1.0, delta=0.1),
        dpbai.ODLinBAI(np.eye(3), budget=40),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_a_file_that_was_made_for_another_policy_is_refused(begun, other):
    with pytest.raises(SessionError, match="made for another policy"):
        Session.resume(begun, other, noise=Deaf())
    same = dpbai.DPBAI(np.eye(3), budget=40, epsilon=1.0)
    assert Session.resume(begun, same, noise=Deaf()).requests


def test_a_file_that_was_begun_with_other_noise_is_refused(begun):
    with pytest.raises(SessionError, match="begun with noise from deaf"):
        Session.resume(begun, noise=NumpyNoise(1))
    with pytest.raises(SessionError, match="noise from deaf: pass that noise"):
        Session.resume(begun)


@pytest.mark.parametrize("noise", [OpenDPNoise(), NumpyNoise(3)], ids=lambda noise: noise.name)
def test_a_file_knows_its_policy_and_its_noise(noise, tmp_path):
    path = tmp_path / "session.json"
    rng = np.random.default_rng(0)
    for policy in POLICIES.values():
        path.unlink(missing_ok=True)
        before = Session(policy, noise=noise, path=path)
        before.record({arm: rng.random(pulls) for arm, pulls in before.requests.items()})
        after = Session.resume(path)
        assert after.released == before.released
        assert after.requests == before.requests
        assert after.certificate.mechanism == noise.name


def forge(path, edit):
    """Change the content of a file and compute its checksum anew, as only a forger would."""
    store = session_store.Store(path)
    content = store._decoded(path.read_bytes())
    edit(content)
    path.write_bytes(store._encoded(content))


def test_a_file_whose_gaussian_noise_has_the_delta_is_read(tmp_path):
    """As files of this version were, until plans had a delta."""
    path = tmp_path / "run.json"
    policy = dpbai.DPBAIGauss(FEATURES, budget=60, epsilon=0.5, delta=1e-5)
    before = Session(policy, noise=NumpyNoise(1), path=path)

    def edit(content):
        plan = content["current"]["plan"]
        plan["noise"]["delta"] = plan.pop("delta")

    forge(path, edit)
    after = Session.resume(path)
    assert after.phase.delta == before.phase.delta == 1e-5
    assert after.certificate.losses == before.certificate.losses


@pytest.mark.parametrize(
    "edit",
    [
        lambda content: content.clear(),
        lambda content: content.pop("policy"),
        lambda content: content.update(labels=[1, 2]),
        lambda content: content.update(finished=None),
        lambda content: content.update(finished=[]),
        lambda content: content.update(current=None),
        lambda content: content["policy"].update(budget=-1),
        lambda content: content["policy"].update(features=[["x"]]),
        lambda content: content["policy"].update({"class": "builtins.eval"}),
        lambda content: content["current"]["plan"].update(index=3),
        lambda content: content["current"]["plan"].update(active=[0, 1, 2]),
        lambda content: content["current"]["plan"].update(pulls=[10**6] * 2),
        lambda content: content["current"]["plan"].update(pulls=[1, 1]),
        lambda content: content["current"]["plan"]["noise"].update(scale=1e-6),
        lambda content: content["current"]["plan"]["noise"].update({"class": "builtins.eval"}),
        lambda content: content["current"]["plan"].update(decoder_matrix=[[1.0]]),
        lambda content: content["current"]["batches"].update(unknown=[]),
        lambda content: content["current"].update(batches=None),
        lambda content: content["finished"][0]["plan"]["noise"].update(scale=1e-6),
        lambda content: content["finished"][0]["plan"].update(pulls=[10**6] * 3),
        lambda content: content["finished"][0].update(statistic=[0.5]),
        lambda content: content["finished"][0].update(pulls=[10**6] * 3),
        lambda content: content.update(withdrawn=["nobody"]),
        lambda content: content.update(batches={"monday": [2, []]}),
        lambda content: content.update(stated=None),
        lambda content: content["current"].update(counts=[7, 10**9]),
        lambda content: content["current"].update(counts=[1]),
        lambda content: content["current"].update(sums=["2", "0"]),
        lambda content: content["current"].update(sums=["-1/2", "0"]),
        lambda content: content["current"].update(sums=["1/0", "0"]),
        lambda content: content["current"].update(sums=["nan", "0"]),
        lambda content: content["current"].update(sums=[None, "0"]),
        lambda content: content["finished"][0].update(survivors=["nobody"]),
        lambda content: content["finished"][0].update(survivors=[0, 1, 2]),
        lambda content: content["finished"][0].pop("epsilon"),
        lambda content: content["finished"][0].update(surplus=1),
    ],
)
def test_a_forged_file_that_does_not_fit_together_is_refused(begun, edit):
    forge(begun, edit)
    assert refused(begun)


def test_a_sum_that_is_refused_is_not_told(begun):
    forge(begun, lambda content: content["current"].update(sums=["0.1234567,", "0"]))
    with pytest.raises(SessionError, match="sums and counts do not fit") as error:
        Session.resume(begun, noise=Deaf())
    assert "1234567" not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize("name", ["DPBAI", "DPDesign", "DPOD", "ODLinBAI"])
def test_a_run_goes_on_with_the_plan_that_it_stored_whatever_is_planned_now(
    name, tmp_path, monkeypatch
):
    """As between two processors, where linear algebra breaks ties in another way."""
    policy, noise, path = POLICIES[name], NumpyNoise(seed=1), tmp_path / "session.json"
    session = Session(policy, noise=noise, path=path)
    straight = Session(policy, noise=noise)
    plan, rng = session.phase, np.random.default_rng(0)
    rewards = {arm: rng.random(n) for arm, n in session.requests.items()}
    for arm, some in rewards.items():
        session.record({arm: some[:1]})
    straight.record(rewards)
    original = type(policy).phase

    def otherwise(self, index, active, *past):
        made = original(self, index, active, *past)
        order = range(len(made.pulled))[::-1]
        release = made.release[:, order]
        return replace(
            made,
            pulled=tuple(made.pulled[i] for i in order),
            pulls=tuple(made.pulls[i] for i in order),
            release_matrix=release,
            decoder_matrix=1.5 * made.decoder,
        )

    monkeypatch.setattr(type(policy), "phase", otherwise)
    session = Session.resume(path, noise=noise)
    for attribute in ("pulled", "pulls", "noise", "keep", "remembered"):
        assert getattr(session.phase, attribute) == getattr(plan, attribute)
    session.record({arm: some[1:] for arm, some in rewards.items() if len(some) > 1})
    assert session.released[0] == straight.released[0]
    again = Session.resume(path, noise=noise)
    assert again.released == session.released
    assert np.array_equal(again.phases[0].decoder, plan.decoder)
    finish(again, rng)
    spent = sum(phase.cost for phase in again.phases)
    assert spent <= policy.budget
    assert again.certificate.epsilon >= max(one.epsilon for one in again.released)


@dataclass(frozen=True, eq=False)
class Uniformly:
    """A policy of a user: all arms equally often, once."""

    features: np.ndarray
    budget: int

    def phase(self, index, active):
        pulls = self.budget // len(active)
        return dpbai.Phase(
            index, tuple(active), tuple(active), (pulls,) * len(active), NoNoise(), 1
        )


def test_a_policy_of_a_user_is_saved_and_resumed(tmp_path):
    policy = Uniformly(np.eye(3), 6)
    session = Session(policy, noise=Deaf(), path=tmp_path / "mine.json")
    session.record({0: [1, 1]})
    with pytest.raises(SessionError, match="none of this library: pass that policy"):
        Session.resume(tmp_path / "mine.json", noise=Deaf())
    session = Session.resume(tmp_path / "mine.json", policy, noise=Deaf())
    assert session.requests == {1: 2, 2: 2}


def test_a_policy_that_cannot_be_described_runs_in_memory_but_is_not_saved(tmp_path):
    parts = {"features": np.eye(3), "budget": 6, "phase": Uniformly.phase}
    with pytest.raises(TypeError, match="policy must be a dataclass"):
        Session(type("Plain", (), parts)(), noise=Deaf(), path=tmp_path / "plain.json")
    odd = Uniformly(np.eye(3), Fraction(6))
    assert Session(odd, noise=Deaf()).requests == {0: 2, 1: 2, 2: 2}
    with pytest.raises(TypeError, match="a Fraction cannot be saved"):
        Session(odd, noise=Deaf(), path=tmp_path / "odd.json")
    assert not (tmp_path / "odd.json").exists()


# Two at once.


def test_of_two_sessions_on_one_file_only_one_draws_the_noise(tmp_path):
    path = tmp_path / "session.json"
    policy = dpbai.DPBAI(np.eye(3), budget=40, epsilon=1.0)
    first = Session(policy, noise=NumpyNoise(1), path=path)
    second = Session.resume(path, noise=NumpyNoise(2))
    batch = {arm: [0.25] * pulls for arm, pulls in first.requests.items()}
    first.record(batch)
    before = second.requests
    with pytest.raises(SessionError, match="changed since it was read or saved here"):
        second.record(batch)
    assert second.requests == before
    assert second.released == ()
    assert Session.resume(path, noise=NumpyNoise(3)).released == first.released


def test_a_step_waits_until_no_other_process_is_in_one(tmp_path):
    """Played by a second lock on the lock file, which might be another process's."""
    path = tmp_path / "session.json"
    session = Session(dpbai.DPBAI(np.eye(3), budget=40, epsilon=1.0), noise=Deaf(), path=path)
    before = path.read_bytes()
    other = session_store.Store(path)
    thread = threading.Thread(target=lambda: session.record({0: [0.5]}))
    with other._locked():
        thread.start()
        thread.join(timeout=0.3)
        assert thread.is_alive()
        assert path.read_bytes() == before
    thread.join()
    assert path.read_bytes() != before


def test_threads_that_share_a_session_lose_no_reward(tmp_path):
    policy = dpbai.Baseline(np.eye(3), budget=400, epsilon=math.inf)
    session = Session(policy, noise=NumpyNoise(1), path=tmp_path / "session.json")
    arms = {arm: min(pulls - 1, 20) for arm, pulls in session.requests.items()}
    before = session.requests

    def deliver(arm, pulls):
        for _ in range(pulls):
            session.record({arm: [1.0]})

    threads = [threading.Thread(target=deliver, args=item) for item in arms.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.requests == {arm: before[arm] - pulls for arm, pulls in arms.items()}
    assert Session.resume(tmp_path / "session.json", noise=NumpyNoise(1)).requests == (
        session.requests
    )


def test_a_save_that_fails_shows_nothing_and_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "session.json"
    policy = dpbai.DPBAI(np.eye(3), budget=40, epsilon=1.0)
    session = Session(policy, noise=NumpyNoise(), path=path)
    batch = {arm: [0.25] * pulls for arm, pulls in session.requests.items()}
    before, requests = path.read_bytes(), session.requests
    with monkeypatch.context() as patch:
        patch.setattr(
            session_store.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full"))
        )
        with pytest.raises(OSError, match="full"):
            session.record(batch)
    assert (path.read_bytes(), session.requests, session.released) == (before, requests, ())
    assert {entry.name for entry in tmp_path.iterdir()} == {"session.json", "session.json.lock"}
    session.record(batch)
    assert len(session.released) == 1


# What is refused, and what is not.

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
    """A session that only ever refuses, so that tests can share it."""
    session = Session(POLICIES["DPBAI"], noise=Deaf())
    session.record({next(iter(session.requests)): [0.5]})
    return session


def state_of(session):
    run = session._run
    return run.finished, run.phase, run.sums, run.counts


def assert_refused(session, call, *, secrets=("0.731", "73.1")):
    before = state_of(session)
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert state_of(session) == before
    told = "".join(traceback.format_exception(caught.value, chain=True)).splitlines()
    said = "\n".join(line for line in told if not line.startswith("  "))
    assert not any(secret in said for secret in secrets)


@pytest.mark.parametrize("rewards", GOOD.values(), ids=GOOD)
def test_rewards_of_any_numeric_kind_are_taken_exactly(rewards):
    session = Session(POLICIES["DPBAI"], noise=Deaf())
    arm = next(iter(session.requests))
    session.record({arm: rewards})
    expected = sum((Fraction(float(reward)) for reward in rewards), Fraction())
    assert session._run.sums[0] == expected
    assert session._run.counts[0] == len(rewards)


@pytest.mark.parametrize("rewards", BAD.values(), ids=BAD)
def test_rewards_that_are_none_are_refused_whole_and_never_told(session, rewards):
    good, bad = list(session.requests)[:2]
    assert_refused(session, lambda: session.record({good: [0.5], bad: rewards}))


@pytest.mark.parametrize("arm", [-1, 10, 8.0, "0", None, True, 0.7310585786300049, (0,)])
def test_rewards_of_an_arm_that_is_not_asked_for_are_refused(session, arm):
    assert_refused(session, lambda: session.record({arm: [0.5]}))
    eliminated = next(arm for arm in range(ARMS) if arm not in session.requests)
    assert_refused(session, lambda: session.record({eliminated: [0.5]}))


@pytest.mark.parametrize(
    ("total", "count"),
    [
        (3.5, 3), (-0.1, 3), (math.nan, 3), (math.inf, 3), (ODD, 0), (ODD, -1), (ODD, 1.0),
        (3, ODD), (ODD, True), (True, 1), ("0.731", 1), (None, 1), (ODD + 0j, 1), ([ODD], 1),
        (np.longdouble(1) + np.finfo(np.longdouble).eps, 1), (Fraction(4, 3), 1), (0.5, 10**30),
        (np.longdouble(1) / 3, 1),
    ],
)  # fmt: skip
def test_sums_that_no_rewards_can_have_are_refused_and_never_told(session, total, count):
    if isinstance(total, np.longdouble) and float(total) == total:
        total = 2.0  # where a long double is a double, there is no such case
    good, bad = list(session.requests)[:2]
    assert_refused(session, lambda: session.record_sums({good: (0.5, 1), bad: (total, count)}))


def test_a_finished_session_takes_nothing_more():
    session = Session(POLICIES["DPBAI"], noise=Deaf())
    finish(session, np.random.default_rng(0))
    with pytest.raises(SessionError, match="finished"):
        session.record({session.recommendation: [0.5]})


def test_ten_thousand_malformed_inputs_are_refused_one_and_all(session):
    """Each input breaks one rule; seeded, so there is no false alarm."""
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


def test_a_thousand_random_edits_of_the_json_are_refused(begun):
    """Values swapped, removed, doubled or retyped anywhere in the tree, with the old checksum."""
    document = json.loads(begun.read_text())
    rng = random.Random(8)

    def places(node):
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            yield node, key
            if isinstance(value, dict | list):
                yield from places(value)

    tried = 0
    while tried < 1000:
        copy = json.loads(json.dumps(document))
        node, key = rng.choice(list(places(copy)))
        node[key] = rng.choice([None, 0, 1, -1, 0.5, "", "x", [], {}, True, [node[key]], 1e300])
        if json.dumps(copy) == json.dumps(document):
            continue
        begun.write_text(json.dumps(copy) + "\n")
        assert refused(begun), (key, node[key])
        tried += 1


@pytest.mark.parametrize(
    "rewards", [[0.7311], [[0.7311]], np.array([0.7311]), 0.7311, None, "ab", {1}]
)
def test_rewards_that_are_no_mapping_are_refused_and_never_told(session, rewards):
    for record in (session.record, session.record_sums):
        with pytest.raises(TypeError, match="must be a mapping from arms") as error:
            record(rewards)
        assert "7311" not in str(error.value)


@pytest.mark.parametrize("path", [".", 5, None, b"run.json", "a\0b", "x" * 5000])
def test_a_path_that_leads_to_no_file_is_named(path):
    with pytest.raises((ValueError, TypeError), match="path must be"):
        Session.resume(path)


def test_a_binary_file_is_no_session(tmp_path):
    (tmp_path / "run.json").write_bytes(bytes(range(256)))
    with pytest.raises(SessionError, match="was cut short or is no dpbai session"):
        Session.resume(tmp_path / "run.json")
