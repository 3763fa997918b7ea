"""A phase of no session is released as a session would release it."""

import math
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpbai
from dpbai.beyond import linearity
from dpbai.certificate import Certificate
from dpbai.field.session import ReleaseWarning, release

PLAN = linearity.holdout([2, 5], pulls=3, epsilon=0.5)
REWARDS = [[1.0, 0.5, 0.25], [0, 0, 1]]


def test_without_noise_the_means_themselves_are_released() -> None:
    plan = linearity.holdout([2, 5], pulls=3, epsilon=math.inf)
    found = release(plan, REWARDS)
    assert found.statistic == (1.75 / 3, 1 / 3)
    assert found.epsilon == math.inf


def test_the_loss_is_that_of_the_plan_and_the_rounding_of_the_means() -> None:
    found = release(PLAN, REWARDS)
    assert 0.5 <= found.epsilon < 0.5 + 1e-12
    assert found.delta == 0
    assert found.remarks == ()


def test_each_release_draws_noise_anew() -> None:
    assert release(PLAN, REWARDS).statistic != release(PLAN, REWARDS).statistic


def test_a_holdout_does_not_repeat_the_noise_of_the_session_that_shares_its_source() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReleaseWarning)
        noise = dpbai.NumpyNoise(7)
        policy = dpbai.Baseline(np.eye(3), budget=100, epsilon=1)
        session = dpbai.Session(policy, noise=noise)
        pulls = session.requests
        session.record({arm: np.zeros(count) for arm, count in pulls.items()})
        plan = linearity.holdout([0, 1, 2], pulls=pulls[0], epsilon=1)
        again = release(plan, [np.zeros(pulls[0])] * 3, noise=noise)
    # Both are noise alone, up to a scale.
    ratios = np.divide(again.statistic, session.released[0].statistic)
    assert np.ptp(ratios) > 1e-6


def test_noise_for_simulation_says_so() -> None:
    with pytest.warns(ReleaseWarning):
        release(PLAN, REWARDS, noise=dpbai.NumpyNoise())


@pytest.mark.parametrize(
    "rewards",
    [
        [[0.5, 0.5, 0.5]],
        [[0.5, 0.5, 0.5], [0.5, 0.5]],
        [[0.5, 0.5, 0.5], [0.5, 0.5, 1.7321]],
        [[0.5, 0.5, 0.5], [0.5, 0.5, math.nan]],
        {2: [0.5], 5: [0.5]},
        0.7321,
    ],
)
def test_other_rewards_are_refused_and_not_repeated(rewards: object) -> None:
    with pytest.raises((TypeError, ValueError), match="rewards") as refusal:
        release(PLAN, rewards)  # type: ignore[arg-type]
    assert "7321" not in str(refusal.value)


@given(
    planned=st.floats(1e-12, 1e6),
    excess=st.one_of(st.just(0.0), st.floats(1e-16, 1e-3), st.just(math.inf)),
)
def test_the_text_of_a_certificate_never_promises_more_than_its_epsilon(
    planned: float, excess: float
) -> None:
    epsilon = planned * (1 + excess)
    made = Certificate((epsilon,), 0.0, planned, "OpenDP", "reward", 1, 1.0, complete=True)
    told = re.search(r"epsilon = (\S+?)(?: \+ (\S+) \(rounding\))?,", str(made).replace("\n ", ""))
    assert told is not None
    total = float(told[1]) + float(told[2] or 0)
    assert total >= epsilon * (1 - 1e-15)
    assert total <= epsilon * (1 + 1e-5)
