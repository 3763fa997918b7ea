"""The file of a session: its content, what is refused, crashes, and concurrent processes."""

import contextlib
import copy
import io
import itertools
import json
import linecache
import logging
import math
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import killed
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import ARMS, DP_BAI, FEATURES, POLICIES, THREE_ARMS, Deaf, begun, finished, full

import dpbai
from dpbai.field.session import (
    NumpyNoise,
    OpenDPNoise,
    Session,
    SessionConflictError,
    SessionError,
    ledger,
    live,
    store,
)
from dpbai.noise import NoNoise

pytestmark = pytest.mark.filterwarnings("ignore::dpbai.field.session.ReleaseWarning")

every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


# The content of the file.


@every_policy
def test_a_session_that_is_resumed_at_every_step_ends_like_one_that_is_not(policy, tmp_path):
    rng = np.random.default_rng(4)
    straight = Session(policy, noise=NumpyNoise(9))
    path = tmp_path / "session.json"
    stepwise = Session(policy, noise=NumpyNoise(9), path=path)
    while straight.requests:
        batch = full(straight, rng)
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


@settings(max_examples=20)
@given(data=st.data())
def test_rewards_in_any_order_and_parts_give_the_same_file(data, tmp_path_factory):
    policy = DP_BAI
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


def test_once_a_phase_is_released_the_file_depends_on_the_release_alone(tmp_path):
    """Two different sets of rewards with the same release give the same bytes."""
    files = []
    for number, seed in enumerate((1, 2)):
        rng = np.random.default_rng(seed)
        session = Session(DP_BAI, noise=Deaf(), path=tmp_path / f"{number}.json")
        for _ in range(2):
            batch = full(session, rng)
            for arm, rewards in batch.items():
                session.record({arm: rewards[:2]})
                session.record({arm: rewards[2:]})
            files.append((tmp_path / f"{number}.json").read_bytes())
    first, second = files[:2], files[2:]
    assert first == second
    assert first[0] != first[1]


def test_during_a_phase_the_file_depends_on_sums_and_counts_alone(tmp_path):
    files = []
    for number, rewards in enumerate(([0.5, 0.5, 0.5], [0.125, 0.375, 1.0], [0.0, 1.0, 0.5])):
        path = tmp_path / f"{number}.json"
        session = Session(DP_BAI, noise=Deaf(), path=path)
        session.record({next(iter(session.requests)): rewards})
        files.append(path.read_bytes())
    assert len(set(files)) == 1


@pytest.mark.parametrize("noise", [OpenDPNoise(), NumpyNoise(3)], ids=lambda noise: noise.name)
def test_a_file_holds_its_policy_and_its_noise(noise, tmp_path):
    path = tmp_path / "session.json"
    rng = np.random.default_rng(0)
    for policy in POLICIES.values():
        path.unlink(missing_ok=True)
        before = Session(policy, noise=noise, path=path)
        before.record(full(before, rng))
        after = Session.resume(path)
        assert after.released == before.released
        assert after.requests == before.requests
        assert after.certificate.mechanism == noise.name


@pytest.mark.parametrize("name", ["DPBAI", "DPDesign", "DPOD", "ODLinBAI"])
def test_a_run_continues_with_its_stored_plan_whatever_the_policy_plans_now(
    name, tmp_path, monkeypatch
):
    """As on another processor, where linear algebra breaks ties in another way."""
    policy, noise, path = POLICIES[name], NumpyNoise(seed=1), tmp_path / "session.json"
    session = Session(policy, noise=noise, path=path)
    straight = Session(policy, noise=noise)
    plan, rng = session.phase, np.random.default_rng(0)
    rewards = full(session, rng)
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
    finished(again, rng)
    spent = sum(phase.cost for phase in again.phases)
    assert spent <= policy.budget
    assert again.certificate.epsilon >= max(one.epsilon for one in again.released)


@dataclass(frozen=True, eq=False)
class Uniformly:
    """A policy of a user: one phase that pulls all arms equally often."""

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
    with pytest.raises(SessionError, match="not part of this library: pass that policy"):
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


# Files that are refused.


@pytest.fixture
def run_file(tmp_path):
    """A file in its second phase, small enough to try every edit of it."""
    path = tmp_path / "session.json"
    policy = THREE_ARMS
    session = Session(policy, noise=Deaf(), path=path)
    session.record(full(session))
    session.record({next(iter(session.requests)): [0.5]})
    return path


def refused(path):
    """Return whether a file is refused with a message of one line, and is not changed."""
    before = path.read_bytes()
    try:
        Session.resume(path, noise=Deaf())
    except SessionError as error:
        message = str(error)
    else:
        return False
    return "\n" not in message and path.read_bytes() == before


def test_a_file_that_was_cut_short_is_refused_wherever_it_was_cut(run_file):
    data = run_file.read_bytes()
    assert not refused(run_file)
    for length in range(len(data)):
        run_file.write_bytes(data[:length])
        assert refused(run_file), length


def test_a_file_with_any_one_byte_changed_or_added_is_refused(run_file):
    data = run_file.read_bytes()
    rng = random.Random(0)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << rng.randrange(8)
        run_file.write_bytes(changed)
        assert refused(run_file), place
        run_file.write_bytes(data[:place] + rng.choice([b" ", b"0", b'"', b"\n"]) + data[place:])
        assert refused(run_file), place


def test_a_thousand_random_edits_of_the_json_are_refused(run_file):
    """Values swapped, removed, doubled or retyped anywhere in the tree, with the old checksum."""
    document = json.loads(run_file.read_text())
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
        run_file.write_text(json.dumps(copy) + "\n")
        assert refused(run_file), (key, node[key])
        tried += 1


def test_files_that_are_not_sessions_are_refused(run_file):
    for text in (
        "", "null", "[]", "{}", "3", "NaN", "[" * 100_000, "\x00", "{\"format\": 3}", "1" * 5000,
        '{"format": "dpbai session"}', '{"format": "dpbai session", "version": 3}',
        '{"format": "dpbai session", "version": 3, "checksum": "", "content": null}',
        '{"format": "dpbai session", "version": 3, "checksum": "", "content": NaN}',
    ):  # fmt: skip
        run_file.write_text(text)
        assert refused(run_file), text[:60]
    run_file.write_bytes(b"\xff\xfe\x00")
    assert refused(run_file)


def test_a_binary_file_is_refused(tmp_path):
    (tmp_path / "run.json").write_bytes(bytes(range(256)))
    with pytest.raises(SessionError, match="was cut short or is not a dpbai session"):
        Session.resume(tmp_path / "run.json")


def test_the_refusal_of_a_file_of_version_0_2_names_the_version_that_reads_it(run_file):
    run_file.write_text(run_file.read_text().replace('"version": 3', '"version": 2'))
    with pytest.raises(SessionError, match=r"has version 2 .* reads version 3: .* \(0\.2 for"):
        Session.resume(run_file, noise=Deaf())


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
def test_a_file_that_was_made_for_another_policy_is_refused(run_file, other):
    with pytest.raises(SessionError, match="made for another policy"):
        Session.resume(run_file, other, noise=Deaf())
    same = THREE_ARMS
    assert Session.resume(run_file, same, noise=Deaf()).requests
    forge(run_file, lambda content: content["policy"].update(surplus=1))
    with pytest.raises(SessionError, match="another policy: surplus differ"):
        Session.resume(run_file, same, noise=Deaf())


def test_a_file_that_was_begun_with_other_noise_is_refused(run_file):
    with pytest.raises(SessionError, match="begun with noise from deaf"):
        Session.resume(run_file, noise=NumpyNoise(1))
    with pytest.raises(SessionError, match="noise from deaf: pass that noise"):
        Session.resume(run_file)


@pytest.mark.parametrize("path", [".", 5, None, b"run.json", "a\0b", "x" * 5000])
def test_an_invalid_path_is_refused_with_the_name_of_the_argument(path):
    with pytest.raises((ValueError, TypeError), match="path must be"):
        Session.resume(path)


def test_resuming_a_file_that_does_not_exist_creates_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Session.resume(tmp_path / "none.json", noise=Deaf())
    assert list(tmp_path.iterdir()) == []


def test_a_new_session_never_overwrites_a_file(tmp_path):
    path = tmp_path / "session.json"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match=r"session\.json exists already"):
        Session(DP_BAI, noise=Deaf(), path=path)
    assert path.read_text() == "precious"


def forge(path, edit):
    """Change the content of a file and compute its checksum anew, as only a forger would."""
    content = store.Store(path)._decoded(path.read_bytes())
    edit(content)
    path.write_bytes(store._encoded(content))


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
        lambda content: content["finished"][0].update(pulls=[-1, 1, 1]),
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
        lambda content: content["finished"][0].update(active=[2, 1, 0]),
        lambda content: content["finished"][0].update(pulled=[2, 1, 0]),
        lambda content: content["finished"][0].update(survivors=["nobody"]),
        lambda content: content["finished"][0].update(survivors=[0, 1, 2]),
        lambda content: content["finished"][0].pop("epsilon"),
        lambda content: content["finished"][0].update(surplus=1),
        lambda content: content["finished"][0].update(phase=2),
        lambda content: content["finished"][0]["survivors"].append("nobody"),
    ],
)
def test_a_forged_file_that_does_not_fit_together_is_refused(run_file, edit):
    forge(run_file, edit)
    assert refused(run_file)


@pytest.mark.parametrize("count", [1, 2, 3], ids=["too few", "as planned", "too many"])
@pytest.mark.parametrize("dropped", [False, True])
def test_a_forged_file_in_which_other_arms_survive_is_refused(count, dropped, tmp_path):
    """Also if the next plan is forged to match. Without noise, any plan satisfies the guarantee."""
    path = tmp_path / "run.json"
    session = Session(POLICIES["DPBAI without noise"], noise=Deaf(), path=path)
    while len(session.released) < 2:
        session.record(full(session))
    out = next(arm for arm in range(ARMS) if arm not in session.released[1].active)

    def edit(content):
        before, plan = content["finished"][1], content["current"]["plan"]
        arms = sorted([out, *before["active"]][not dropped :][:count])
        before["survivors"] = arms
        plan.update(active=arms, pulled=arms, pulls=[1] * count, keep=1)
        plan.update(release_matrix=None, decoder_matrix=None)
        content["current"].update(counts=[0] * count, sums=["0"] * count)

    forge(path, edit)
    assert session.phases[1].keep == 2
    if count == 2 and not dropped:
        assert Session.resume(path, noise=Deaf()).phase.active == session.phases[1].active[:2]
        return
    with pytest.raises(SessionError, match="release of phase 2 does not fit its plan"):
        Session.resume(path, noise=Deaf())


@pytest.mark.parametrize(
    "edit",
    [
        lambda content: content["batches"]["monday"][1].append([1, 1]),
        lambda content: content["current"]["batches"].update(monday=[[0, "3/2"]]),
        lambda content: content["batches"].update(monday=[1, [[0, 1.5]]]),
        lambda content: content["current"]["counts"].__setitem__(0, 4.5),
    ],
    ids=[
        "a count without a sum",
        "a sum that its one reward cannot have",
        "half a reward",
        "half a reward without a batch",
    ],
)
def test_a_forged_file_with_an_impossible_batch_is_refused(edit, tmp_path):
    path = tmp_path / "run.json"
    session = Session(THREE_ARMS, noise=Deaf(), path=path)
    session.record({0: [0.5]}, batch="monday")
    session.record({0: [0.5] * 3})
    assert Session.resume(path, noise=Deaf()).batches == session.batches
    forge(path, edit)
    assert refused(path)


def test_a_forged_file_with_neither_a_phase_nor_a_release_is_refused(tmp_path):
    Session(THREE_ARMS, noise=Deaf(), path=tmp_path / "run.json")
    forge(tmp_path / "run.json", lambda content: content.update(current=None))
    with pytest.raises(SessionError, match="the current phase is missing"):
        Session.resume(tmp_path / "run.json", noise=Deaf())


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda content: content["current"]["plan"]["noise"].update({"class": "dpbai.Cauchy"}),
            r"class 'dpbai\.Cauchy', which this version of dpbai does not have: continue with",
        ),
        (lambda content: content.pop("policy"), "it has no entry 'policy'"),
    ],
)
def test_a_forged_file_is_refused_with_the_reason(run_file, edit, message):
    forge(run_file, edit)
    with pytest.raises(SessionError, match=message):
        Session.resume(run_file, noise=Deaf())


def test_a_sum_that_is_refused_is_not_quoted(run_file):
    forge(run_file, lambda content: content["current"].update(sums=["0.1234567,", "0"]))
    with pytest.raises(SessionError, match="sums and counts do not fit") as error:
        Session.resume(run_file, noise=Deaf())
    assert "1234567" not in "".join(traceback.format_exception(error.value))


def test_a_guarantee_is_never_less_than_the_one_that_was_stated_when_the_run_began(tmp_path):
    """As on another machine, whose plans differ by rounding; here they differ by a factor of 2."""
    path = tmp_path / "run.json"
    before = begun(path).certificate.epsilon

    def edit(content):
        content["stated"]["losses"] = [2 * loss for loss in content["stated"]["losses"]]

    forge(path, edit)
    assert Session.resume(path).certificate.epsilon == pytest.approx(2 * before)


def test_a_file_that_stores_delta_with_its_gaussian_noise_is_read(tmp_path):
    """As files of this version did before plans had a delta."""
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


def test_an_older_copy_in_another_place_is_not_counted_beside_its_run(tmp_path):
    path, copy = tmp_path / "run.json", tmp_path / "copy.json"
    session = begun(path)
    session.record(full(session))
    shutil.copy(path, copy)
    finished(session)
    older = Session.resume(copy)
    for runs, place in (([older, session], 0), ([session, older], 1)):
        found = ledger(runs)
        assert (found.copies, found.epsilon) == ((place,), session.certificate.epsilon)


def test_the_next_step_corrects_the_count_of_phases_after_a_crash(tmp_path):
    """After a crash between the two writes, the file has one phase more than its lock file."""
    path, copy, lock = (tmp_path / name for name in ("run.json", "copy.json", "run.json.lock"))
    session = begun(path)
    shutil.copy(path, copy)
    before = lock.read_bytes()
    session.record(full(session))
    lock.write_bytes(before)
    session.record({next(iter(session.requests)): [0.5]})
    shutil.copy(copy, path)
    with pytest.raises(SessionError, match="an older copy: phase 1"):
        Session.resume(path)


def test_a_run_does_not_continue_if_its_file_has_a_second_name(tmp_path):
    path = tmp_path / "run.json"
    begun(path)
    os.link(path, tmp_path / "other.json")
    for name in ("run.json", "other.json"):
        session = Session.resume(tmp_path / name)
        with pytest.raises(SessionError, match="second name"):
            session.record({0: [0.5]})
    (tmp_path / "other.json").unlink()
    Session.resume(path).record({0: [0.5]})


def test_the_lock_file_of_an_earlier_run_does_not_prevent_a_new_run(tmp_path):
    path = tmp_path / "run.json"
    finished(begun(path))
    path.unlink()
    session = begun(path)
    session.record(full(session))
    assert len(Session.resume(path).released) == 1
    (tmp_path / "run.json.lock").write_text("precious")
    with pytest.raises(SessionError, match=r"run\.json\.lock is not the lock file"):
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


# Permissions, and the files beside the session.


def test_only_the_owner_may_read_the_file(tmp_path):
    path = tmp_path / "session.json"
    session = Session(DP_BAI, noise=Deaf(), path=path)
    session.record({next(iter(session.requests)): [0.5]})
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("suffix", [".tmp", ".lock"])
def test_a_link_in_place_of_the_temporary_or_the_lock_file_is_not_followed(suffix, tmp_path):
    path, target = tmp_path / "session.json", tmp_path / "target"
    target.write_text("precious")
    session = begun(path)
    beside = path.with_name(path.name + suffix)
    beside.unlink(missing_ok=True)
    beside.symlink_to(target)
    if suffix == ".tmp":
        session.record({0: [0.5]})
        assert not beside.exists()
    else:
        with pytest.raises(OSError, match="symbolic link"):
            session.record({0: [0.5]})
    assert target.read_text() == "precious"
    assert not path.is_symlink()


def test_the_session_does_not_take_the_mode_of_an_existing_temporary_file(tmp_path):
    path = tmp_path / "session.json"
    planted = tmp_path / "session.json.tmp"
    planted.write_text("")
    planted.chmod(0o666)
    with planted.open() as reader:
        begun(path).record({0: [0.5]})
        assert reader.read() == ""
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_temporary_file_that_appears_during_a_step_stops_the_step(tmp_path, monkeypatch):
    path = tmp_path / "session.json"
    session = begun(path)
    before, opened = path.read_bytes(), os.open

    def plant(file, flags, mode=0o777):
        if str(file).endswith(".tmp"):
            Path(file).write_text("planted")
        return opened(file, flags, mode)

    monkeypatch.setattr(os, "open", plant)
    with pytest.raises(SessionError, match=r"session\.json\.tmp was made by another process"):
        session.record({0: [0.5]})
    assert path.read_bytes() == before
    assert (tmp_path / "session.json.tmp").read_text() == "planted"


@pytest.mark.parametrize(("mode", "kept"), [(0o400, 0o400), (0o600, 0o600), (0o666, 0o600)])
def test_a_stricter_mode_of_the_file_is_kept(mode, kept, tmp_path):
    path = tmp_path / "session.json"
    session = begun(path)
    path.chmod(mode)
    session.record({0: [0.5]})
    assert path.stat().st_mode & 0o777 == kept


def test_reading_needs_no_write_permission_and_writes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "session.json"
    begun(path).record({0: [0.5]})
    (tmp_path / "session.json.lock").unlink()
    (tmp_path / "session.json.tmp").write_text("left by a crash")
    before = sorted((entry.name, entry.read_bytes()) for entry in tmp_path.iterdir())
    opened, opened_by_io = os.open, io.open

    def read_only(file, flags, *rest):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise PermissionError("read-only")
        return opened(file, flags, *rest)

    def read_only_io(file, mode="r", *rest, **options):
        if set(mode) & set("wax+"):
            raise PermissionError("read-only")
        return opened_by_io(file, mode, *rest, **options)

    monkeypatch.setattr(os, "open", read_only)
    monkeypatch.setattr(io, "open", read_only_io)
    session = Session.resume(path)
    assert session.requests[0] == THREE_ARMS.phase(1, range(3)).pulls[0] - 1
    assert sorted((entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()) == before
    with pytest.raises(PermissionError):
        session.record({0: [0.5]})


# Several processes and threads.


def test_of_two_sessions_on_one_file_only_one_draws_the_noise(tmp_path):
    path = tmp_path / "session.json"
    policy = THREE_ARMS
    first = Session(policy, noise=NumpyNoise(1), path=path)
    second = Session.resume(path, noise=NumpyNoise(2))
    batch = full(first)
    first.record(batch)
    before = second.requests
    with pytest.raises(SessionError, match="changed since this session read or saved it"):
        second.record(batch)
    assert second.requests == before
    assert second.released == ()
    assert Session.resume(path, noise=NumpyNoise(3)).released == first.released


def test_a_step_waits_until_no_other_process_is_in_one(tmp_path):
    """A second lock on the lock file stands for another process."""
    path = tmp_path / "session.json"
    session = Session(THREE_ARMS, noise=Deaf(), path=path)
    before = path.read_bytes()
    other = store.Store(path)
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


def test_processes_that_repeat_a_step_after_a_conflict_lose_no_reward(tmp_path):
    """Threads with a session each, which share only the file, stand for processes."""
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
    assert np.sum(list(session._run.totals.values()), axis=0).tolist() == [36, 36]


def test_waiting_for_a_lock_is_logged(tmp_path, caplog, monkeypatch):
    path = tmp_path / "run.json"
    session = begun(path)
    monkeypatch.setattr(store, "_WARN_AFTER", 0.0)
    thread = threading.Thread(target=lambda: session.record({0: [0.5]}))
    with caplog.at_level(logging.WARNING), store.Store(path)._locked():
        thread.start()
        while not caplog.messages:
            assert thread.is_alive()
    thread.join()
    assert caplog.messages == [f"waiting for another process that holds {path}.lock"]


def test_a_file_whose_phase_is_released_while_it_is_read_is_not_an_older_copy(
    tmp_path, monkeypatch
):
    """By another process, after this one has read the file."""
    path = tmp_path / "run.json"
    other, read = begun(path), Path.read_bytes

    def read_late(file):
        data = read(file)
        monkeypatch.undo()
        other.record(full(other))
        return data

    monkeypatch.setattr(Path, "read_bytes", read_late)
    session = Session.resume(path)
    assert (session.released, len(other.released)) == ((), 1)
    with pytest.raises(SessionConflictError):
        session.record({0: [0.5]})


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"]
)
def test_a_session_cannot_be_copied(copied, saved, tmp_path):
    session = begun(tmp_path / "session.json" if saved else None)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copied(session)


@pytest.mark.parametrize("saved", [True, False])
def test_a_session_and_its_fork_do_not_both_release_a_phase(saved, tmp_path):
    """An object with another process number stands for the fork."""
    session = begun(tmp_path / "session.json" if saved else None, seed=None)
    other = object.__new__(Session)
    other.__dict__.update(session.__dict__, _process=-1)
    batch = full(session)
    session.record(batch)
    with pytest.raises(SessionError, match=r"process that began it|changed since"):
        other.record(batch)
    assert other.released == ()


# Steps that fail, are interrupted or killed.


def test_a_save_that_fails_shows_nothing_and_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "session.json"
    policy = THREE_ARMS
    session = Session(policy, noise=NumpyNoise(), path=path)
    batch = full(session)
    before, requests = path.read_bytes(), session.requests
    with monkeypatch.context() as patch:
        patch.setattr(store.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            session.record(batch)
    assert (path.read_bytes(), session.requests, session.released) == (before, requests, ())
    assert {entry.name for entry in tmp_path.iterdir()} == {"session.json", "session.json.lock"}
    session.record(batch)
    assert len(session.released) == 1


def record_interrupted(session, batch, step):
    """Record, with an interrupt at a step of the code that saves; return whether it occurred.

    Steps are lines or, in `Session._step`, instructions. (Python delivers no signal between the end
    of a `with` block and the release of its resource.)
    """
    count = 0
    steps = {"_record", "_step", "save", "_write", "_locked"}

    def trace(frame, event, _):
        nonlocal count
        code = frame.f_code
        if code.co_filename not in (live.__file__, store.__file__) or code.co_name not in steps:
            return None
        frame.f_trace_opcodes = code.co_name == "_step"
        line = linecache.getline(code.co_filename, frame.f_lineno).split()
        if event == ("opcode" if frame.f_trace_opcodes else "line") and line[0] != "with":
            count += 1
            if count == step:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        session.record(batch)
        came = False
    except KeyboardInterrupt:
        came = True
    sys.settrace(before)
    return came


def test_no_session_releases_twice_after_an_interrupt_at_any_step(tmp_path):
    interrupted = 0
    for step in itertools.count(1):
        path = tmp_path / f"{step}.json"
        session = begun(path, seed=None)
        batch = full(session)
        came = record_interrupted(session, batch, step)
        between = Session.resume(path)
        # It was recorded already, or the file is newer than this object.
        with contextlib.suppress(SessionError, ValueError):
            session.record(batch)
        shown = (between, session, Session.resume(path))
        seen = {released.statistic for one in shown for released in one.released[:1]}
        assert len(seen) == 1, step
        if not came:
            break
        interrupted += 1
    assert interrupted > 20


# In memory, saving is faster, and a kill loses nothing that a disk would keep.
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None


def run(mutant, only=""):
    """Yield the outcome of each kill. Closing the generator ends the script."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as root:
        command = [sys.executable, killed.__file__, mutant, root, only]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as script:
            try:
                yield from map(json.loads, script.stdout)
            except GeneratorExit:
                script.kill()
                raise
    assert script.returncode == 0


def faults(kills):
    """Return the faults in the outcomes of kills."""
    wrong = set()
    for kill in kills:
        seen, found = kill["seen"], kill["found"]
        if found is None:
            # There may be no file only if the session had not shown anything.
            if seen or not kill["first"] or kill["error"] != "FileNotFoundError":
                wrong.add("the file is lost")
            continue
        final = kill["final"]
        if seen:
            last = seen[-1]
            shown_releases = last["released"]
            if found["released"][: len(shown_releases)] != shown_releases:
                wrong.add("noise was drawn again")
            if (found["phase"], -found["missing"]) < (last["phase"], -last["missing"]):
                wrong.add("rewards were lost")
        if final["released"][: found["phase"]] != found["released"]:
            wrong.add("noise was drawn again")
        for phase, (pulled, pulls) in enumerate(final["pulled"], start=1):
            for arm, number, value in zip(pulled, pulls, final["released"][phase - 1], strict=True):
                mean = sum(killed.reward(phase, arm, n) for n in range(number)) / number
                if abs((value - mean + 0.5) % 1 - 0.5) > 1e-6:
                    wrong.add("rewards were lost")
        if final["recommendation"] is None or kill["files"] != [
            "session.json",
            "session.json.lock",
        ]:
            wrong.add("it did not end well")
    return wrong


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills children by fork")


@needs_fork
@pytest.mark.parametrize("step", range(len(killed.SHARES)))
def test_a_kill_at_any_line_loses_no_reward_and_draws_no_noise_again(step):
    kills = list(run("none", str(step)))
    assert faults(kills) == set()
    assert sum(not kill["killed"] for kill in kills) == step + 1
    assert len(kills) > 30
    # At the end of a phase, some kills came before and some after its release was saved.
    seen = [kill for kill in kills if kill["seen"] and kill["killed"]]
    phases = {kill["found"]["phase"] - kill["seen"][-1]["phase"] for kill in seen}
    assert phases == (set(), {0}, {0, 1}, {0, 1})[step]


@needs_fork
@pytest.mark.parametrize(
    ("mutant", "step", "claims"),
    [
        ("write in place", "0", {"the file is lost"}),
        ("rename before writing", "0", {"the file is lost"}),
        ("show before saving", "2", {"noise was drawn again", "rewards were lost"}),
    ],
)
def test_the_kills_detect_likely_mistakes(mutant, step, claims):
    kills = run(mutant, step)
    found = set()
    for kill in kills:
        found |= faults([kill])
        if claims <= found:
            break
    kills.close()
    assert claims <= found


def test_a_document_is_on_disk_before_it_is_renamed_and_the_renaming_before_it_is_shown(
    tmp_path, monkeypatch
):
    """The order of the calls, as no kill can simulate a loss of power."""
    order = []
    session = Session(killed.POLICY, noise=killed.Fresh(), path=tmp_path / "session.json")
    before = killed.shown(session)

    def recorded(name):
        original = getattr(os, name)

        def call(*arguments):
            assert killed.shown(session) == before
            target = arguments[0]
            if isinstance(target, int):
                target = Path(f"/proc/self/fd/{target}").readlink()
            order.append((name, Path(target).name))
            return original(*arguments)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(store.os, name, recorded(name))
    killed.deliver(session)
    temporary = "session.json.tmp"
    expected = [("fsync", temporary), ("replace", temporary), ("fsync", tmp_path.name)]
    expected += [("fsync", "session.json.lock")]  # the number of the phases released
    assert order == expected
    assert killed.shown(session) != before
