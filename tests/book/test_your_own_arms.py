"""The table of "Your own arms" is what its note says, and the chapter's claims about it hold."""

import re
from pathlib import Path

import numpy as np
import own_arms_table
import pandas as pd
import pytest
from scipy import stats

import dpbai
from dpbai.beyond import linearity
from dpbai.field import figures

DATA = Path(__file__).resolve().parents[2] / "book" / "data"
ARMS = pd.read_csv(DATA / own_arms_table.ARMS)
RESPONSES = pd.read_csv(DATA / own_arms_table.RESPONSES)
SHARES = (RESPONSES["fetched"] / RESPONSES["people"]).to_numpy()
LABELS = ARMS["arm"].tolist()

FEATURES = ARMS[["constant", "incentive", "near"]].to_numpy(dtype=float)
ROOT = np.column_stack([FEATURES[:, 0], np.sqrt(FEATURES[:, 1]), FEATURES[:, 2]])
LOG = dpbai.Instance(ROOT, rewards=[dpbai.Bernoulli(share) for share in SHARES])
T, EPSILON = 1200, 0.5


def person(kwacha, kilometres, got):
    return {"tinc": kwacha * 0.009456, "distvct": kilometres, "got": got}


# The table.


def test_the_derivation_counts_people_by_hand():
    """Edges of ranges and of nearness, a person without an answer, one without an offer."""
    people = pd.DataFrame(
        [
            person(0, 1.0, 1),
            person(0, 1.4, 0),
            person(10, 1.5, 1),
            person(50, 4.0, 0),
            person(50, 4.0, 1),
            person(60, 1.499, 1),
            person(300, 0.0, 0),
            person(300, 0.0, np.nan),
            person(np.nan, 0.0, 1),
        ]
    ).astype("float32")
    table = own_arms_table.arm_table(people).set_index("arm")
    assert table["people"].to_dict() == {"0 near": 2, "10-50 far": 3, "60-100 near": 1} | {
        "260-300 near": 1
    }
    assert table["fetched"].tolist() == [1, 2, 1, 0]
    assert table["incentive"].tolist() == [0, 0.37, 0.6, 3.0]
    assert table["near"].tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize("kwacha", [310, 15])
def test_an_offer_that_the_article_does_not_have_is_refused(kwacha):
    with pytest.raises(ValueError, match="multiples of 10 kwacha"):
        own_arms_table.arm_table(pd.DataFrame([person(kwacha, 1.0, 1)]))


def test_the_script_writes_the_two_files_that_are_committed(tmp_path):
    """From made-up people, one for each of those in the table."""
    people = [
        person(round(100 * arm.incentive), 1.0 if arm.near else 2.0, int(answer < fetched))
        for arm, (count, fetched) in zip(
            ARMS.itertuples(), RESPONSES[["people", "fetched"]].to_numpy(), strict=True
        )
        for answer in range(count)
    ]
    # Means of offers are not offers: to the next ten, within the range.
    frame = pd.DataFrame(people)
    kwacha = (frame["tinc"] / own_arms_table.KWACHA / 10).round() * 10
    frame["tinc"] = kwacha * own_arms_table.KWACHA
    source = tmp_path / "people.dta"
    frame.to_stata(source)
    assert own_arms_table.main([str(source), str(tmp_path)]) == 0
    for name in (own_arms_table.ARMS, own_arms_table.RESPONSES):
        written, committed = pd.read_csv(tmp_path / name), pd.read_csv(DATA / name)
        np.testing.assert_allclose(
            written.pop("incentive") if "incentive" in written else 0,
            committed.pop("incentive") if "incentive" in committed else 0,
            atol=0.051,
        )
        pd.testing.assert_frame_equal(written, committed)


def test_the_table_agrees_with_the_article():
    """Its abstract: 34 percent without an incentive, and the smallest one doubles that share."""
    arm = RESPONSES.set_index("arm")
    nothing, least = (arm.loc[[f"{offer} far", f"{offer} near"]].sum() for offer in ("0", "10-50"))
    share = nothing["fetched"] / nothing["people"]
    assert round(share, 2) == 0.34
    assert least["fetched"] / least["people"] == pytest.approx(2 * share, rel=0.02)


def test_the_note_states_what_the_files_hold():
    note = (DATA / "README.md").read_text(encoding="utf-8")
    assert f"keep the {RESPONSES['people'].sum()} that say" in note
    assert f"{len(ARMS)} counts of people" in note
    for column in [*ARMS, *RESPONSES]:
        assert f"`{column}`" in note
    assert re.search(r"SHA-256\s+`[0-9a-f]{64}`", note)
    assert "MIT license" in note
    assert RESPONSES["arm"].tolist() == LABELS


# The chapter's claims.


def rates(features, make, trials=4000):
    runs = dpbai.simulate(make(features), LOG, trials=trials, seed=11)
    return runs.success_rate, runs.recommended[LOG.gaps <= 0.05].sum() / trials


def dp_bai(features):
    return dpbai.DPBAI(features, budget=T, epsilon=EPSILON)


def test_policies_that_trust_the_model_to_the_end_never_find_the_best_arm():
    """OD-LinBAI and DP-OD succeed in no trial of 4000: below 0.5 %, but for a chance of 2e-9."""
    for features in (FEATURES, ROOT):
        assert rates(features, lambda x: dpbai.ODLinBAI(x, budget=T))[0] == 0
        assert (
            rates(features, lambda x: dpbai.DPOD(x, budget=T, epsilon=EPSILON, norm="l1"))[0] == 0
        )


def test_dp_bai_does_better_with_the_root_and_is_close_nearly_always():
    """Rates .42, .52 and .94; with 4000 trials the margins are over six deviations each."""
    plain, root = rates(FEATURES, dp_bai), rates(ROOT, dp_bai)
    assert 0.36 < plain[0] < 0.465 < root[0] < 0.57
    assert root[1] > 0.915


@pytest.mark.parametrize("features", [FEATURES, ROOT], ids=["plain", "root"])
def test_the_check_finds_the_misfit_as_often_as_its_law_says(features):
    """Against a normal approximation of the difference; deviation of the rate below 0.016."""
    first = dp_bai(features).phase(1, range(len(LABELS)))
    middle = LABELS.index("60-100 far")
    check = linearity.holdout([middle], pulls=100, epsilon=EPSILON)
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(1000):
        releases = []
        for phase in (first, check):
            means = rng.binomial(phase.pulls, SHARES[list(phase.pulled)]) / phase.pulls
            noise = phase.noise.sample(rng, (phase.coordinates,))
            releases.append(phase.statistic(means) + noise)
        found += linearity.misfit(first, releases[0], check, releases[1]).found
    pulled = SHARES[list(first.pulled)]
    weights = first.decoder[middle]
    variance = (weights**2 @ (pulled * (1 - pulled))) / first.pulls[0]
    variance += (weights**2).sum() * first.noise.standard_deviation**2
    share = SHARES[middle]
    variance += share * (1 - share) / 100 + check.noise.standard_deviation**2
    expected = share - weights @ pulled
    (limit,) = linearity.limits(first, check)
    power = stats.norm.sf((limit - expected) / np.sqrt(variance))
    assert found / 1000 == pytest.approx(power, abs=0.1)  # five deviations, and the approximation


@pytest.mark.filterwarnings("ignore::dpbai.ReleaseWarning")
def test_sessions_recommend_as_often_as_simulate_says():
    """A chi-square test over the arms; it errs with probability 1e-6."""
    runs, policy = 400, dp_bai(ROOT)
    recommended = np.zeros(len(LABELS))
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        session = dpbai.Session(policy, noise=dpbai.NumpyNoise(seed))
        while session.requests:
            session.record(
                {
                    arm: (rng.random(people) < SHARES[arm]).astype(float)
                    for arm, people in session.requests.items()
                }
            )
        recommended[session.recommendation] += 1
    law = dpbai.simulate(policy, LOG, trials=200_000, seed=0).recommended / 200_000
    common = law > 0.02
    observed = [*recommended[common], recommended[~common].sum()]
    expected = [*law[common], law[~common].sum()]
    assert stats.chisquare(observed, np.array(expected) * runs).pvalue > 1e-6


# The figure.


@pytest.mark.filterwarnings("ignore::dpbai.ReleaseWarning")
def test_the_trace_shows_what_each_phase_released():
    rng = np.random.default_rng(1)
    session = dpbai.Session(dp_bai(ROOT), noise=dpbai.NumpyNoise(1), labels=LABELS)
    with pytest.raises(ValueError, match="must have released a phase"):
        figures.run_trace(session)
    while session.requests:
        session.record(
            {
                arm: (rng.random(n) < SHARES[LABELS.index(arm)]).astype(float)
                for arm, n in session.requests.items()
            }
        )
    picture = figures.run_trace(session, means=dict(zip(LABELS, SHARES, strict=True)))
    assert len(picture.axes) == len(session.released) == 3
    # From the bottom: what each phase dropped, and the survivor, each group by its last estimates.
    rows, left = [], set(LABELS)
    for released in session.released:
        estimates = dict(zip(released.active, released.estimates, strict=True))
        rows += sorted(left - set(released.survivors), key=estimates.get)
        left = set(released.survivors)
    rows = [session.recommendation, *reversed(rows)]
    assert [text.get_text() for text in picture.axes[0].get_yticklabels()] == rows
    assert picture.axes[0].yaxis_inverted()
    for axes, released in zip(picture.axes, session.released, strict=True):
        drawn = {
            (rows[int(row)], value, container.get_label())
            for container in axes.containers
            for value, row in zip(*container.lines[0].get_data(), strict=True)
        }
        keeps = "recommended" if released.phase == 3 else "kept"
        assert drawn == {
            (label, value, keeps if label in released.survivors else "dropped")
            for label, value in zip(released.active, released.estimates, strict=True)
        }
        (known,) = [line for line in axes.get_lines() if line.get_label() == "known mean"]
        means = [SHARES[LABELS.index(label)] for label in rows]
        np.testing.assert_array_equal(known.get_xdata(), means)


@pytest.mark.filterwarnings("ignore::dpbai.ReleaseWarning")
def test_bars_of_the_trace_are_those_of_arms_that_are_pulled_by_themselves():
    """Baseline asks about each arm: a bar is sqrt(1 / (4 n) + 2 / (epsilon n)^2)."""
    policy = dpbai.Baseline(FEATURES, budget=T, epsilon=EPSILON)
    session = dpbai.Session(policy, noise=dpbai.NumpyNoise(1), labels=LABELS)
    (pulls,) = set(session.requests.values())
    session.record({arm: np.ones(pulls) for arm in session.requests})
    (axes,) = figures.run_trace(session).axes
    lengths = [
        (end - start) / 2
        for container in axes.containers
        for (start, _), (end, _) in container.lines[2][0].get_segments()
    ]
    assert len(lengths) == len(LABELS)
    expected = np.sqrt(1 / (4 * pulls) + 2 / (EPSILON * pulls) ** 2)
    np.testing.assert_allclose(lengths, expected)
