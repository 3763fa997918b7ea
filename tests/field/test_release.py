"""Releases: the law of their noise, their privacy loss, and rounding that reveals nothing."""

import math
import re
import sys
import warnings
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sessions import THREE_ARMS

import dpbai
from dpbai.beyond import linearity
from dpbai.certificate import Certificate
from dpbai.field.session import NumpyNoise, OpenDPNoise, ReleaseWarning, Session, release
from dpbai.field.session.releases import exact_statistic
from dpbai.field.session.rewards import array_sum, exact_sum
from dpbai.noise import Gaussian, Laplace, NoNoise, gaussian_sigma
from dpbai.phase import Phase

FALSE_ALARM = 1e-6
DRAWS = 8_000


@pytest.fixture(scope="module")
def opendp():
    return OpenDPNoise()


# The law of the draws. Each check has a false-alarm rate below 1e-6, whatever the generator: draws
# of a cryptographic generator cannot be seeded, so these rates are real.


LAWS = {
    "Laplace(0.04)": (Laplace(0.04), stats.laplace(scale=0.04)),
    "Laplace(3e-9)": (Laplace(3e-9), stats.laplace(scale=3e-9)),
    "Laplace(2e5)": (Laplace(2e5), stats.laplace(scale=2e5)),
    "Gaussian(0.3)": (Gaussian(0.3), stats.norm(scale=0.3)),
}


@pytest.fixture(scope="module", params=LAWS.values(), ids=LAWS)
def draws(request, opendp):
    """Draws of two calls, one after the other."""
    noise, law = request.param
    calls = [opendp.add(noise, [0.0] * (DRAWS // 2), phase=1) for _ in range(2)]
    return noise, law, np.concatenate(calls)


def test_opendp_draws_follow_the_law(draws):
    """Kolmogorov-Smirnov at level 1e-6."""
    _, law, sample = draws
    assert stats.kstest(sample, law.cdf).pvalue > FALSE_ALARM


def test_opendp_draws_have_the_standard_deviation_that_the_noise_states(draws):
    """The second moment, within 5 standard errors (normal approximation: 6e-7)."""
    noise, law, sample = draws
    variance = noise.standard_deviation**2
    error = math.sqrt((law.moment(4) - variance**2) / DRAWS)
    assert abs((sample**2).mean() - variance) < 5 * error


def test_opendp_draws_are_independent_over_coordinates_and_calls(draws):
    """Correlations within 5 standard errors (6e-7 each)."""
    _, _, sample = draws
    for first, second in ((sample[1:], sample[:-1]), np.split(sample, 2)):
        assert abs(np.corrcoef(first, second)[0, 1]) < 5 / math.sqrt(len(first))


def test_the_checks_would_find_a_scale_that_is_wrong(opendp):
    """Mutants: a standard deviation passed as the scale, a sensitivity too small by half."""
    for factor in (math.sqrt(2), 0.5):
        sample = opendp.add(Laplace(factor), [0.0] * DRAWS, phase=1)
        assert stats.kstest(sample, stats.laplace(scale=1).cdf).pvalue < FALSE_ALARM


def test_opendp_noise_is_added_to_the_statistic(opendp):
    """Noise of scale 1e-9 does not change the first digits: P(abs(Z) > 1e-7) = e^-100."""
    released = opendp.add(Laplace(1e-9), [0.25, -3.0, 1e4], phase=1)
    assert released == pytest.approx([0.25, -3.0, 1e4], abs=1e-7)
    assert opendp.add(Laplace(1e-9), [], phase=1) == ()


@pytest.mark.parametrize("source", [OpenDPNoise(), NumpyNoise(0)], ids=lambda source: source.name)
def test_without_noise_the_statistic_is_released_and_the_loss_is_infinite(source):
    assert source.add(NoNoise(), [0.1, 0.2], phase=1) == (0.1, 0.2)
    assert source.loss(NoNoise(), (1 / 3,)) == math.inf
    assert source.loss(NoNoise(), ()) == 0


def test_the_loss_of_a_shift_that_overflows_is_infinite(opendp):
    for noise in (Laplace(1.0), Gaussian(1.0)):
        assert opendp.loss(noise, (sys.float_info.max,) * 2, 1e-5) == math.inf


def test_the_loss_of_gaussian_noise_without_a_delta_is_infinite(opendp):
    assert opendp.loss(Gaussian(1.0), (1.0,)) == math.inf


def test_opendp_refuses_an_unknown_law(opendp):
    class Other:
        standard_deviation = 1.0

    with pytest.raises(TypeError, match="no measurement for Other noise"):
        opendp.add(Other(), [0.0], phase=1)


# The floating-point attack (Mironov, 2012).


def share_on_grid(source, secret):
    """Return the share of the small releases of a secret that are multiples of 2^-54."""
    sample = np.array(source.add(Laplace(1.0), [secret] * DRAWS, phase=1))
    small = np.ldexp(sample[np.abs(sample) < 2**-6], 54)
    return np.mean(small == np.round(small))


def test_low_bits_distinguish_secrets_with_numpy_noise_and_not_with_opendp_noise():
    """Of the doubles below 2^-6, one in 32 or fewer is a multiple of 2^-54, the grid of 1/3.

    In floating point, 1/3 plus noise of about -1/3 is always one of them; 0 plus noise seldom is.
    About 100 draws are small; more than a fifth of them are on the grid with probability < 1e-8.
    """
    numpy, opendp = NumpyNoise(0), OpenDPNoise()
    assert share_on_grid(numpy, 1 / 3) == 1
    assert share_on_grid(numpy, 0.0) < 0.2
    assert share_on_grid(opendp, 1 / 3) < 0.2
    assert share_on_grid(opendp, 0.0) < 0.2


# The privacy loss.


steps = st.lists(st.just(0.0) | st.floats(1e-9, 10), min_size=1, max_size=5).map(tuple)


@given(shift=steps, scale=st.floats(1e-6, 1e6))
def test_the_loss_of_opendp_laplace_noise_is_that_of_the_l1_norm_and_never_too_low(shift, scale):
    exact = sum(map(Fraction, shift)) / Fraction(scale)
    told = Fraction(OpenDPNoise().loss(Laplace(scale), shift))
    assert exact <= told <= exact * (1 + Fraction(1, 10**14))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_the_loss_of_opendp_gaussian_noise_is_between_the_truth_and_the_textbook_bound(
    epsilon, delta
):
    """Truth: Balle and Wang (2018). Bound: rho + 2 sqrt(rho log(1/delta)), Bun and Steinke (2016).

    For the least noise that is enough for epsilon, so that the truth is epsilon itself.
    """
    sigma = 0.1 * gaussian_sigma(epsilon, delta, "analytic")
    told = OpenDPNoise().loss(Gaussian(sigma), (0.06, 0.08), delta)
    rho = (0.1 / sigma) ** 2 / 2
    assert epsilon <= told <= rho + 2 * math.sqrt(rho * math.log(1 / delta))


def test_where_opendp_overflows_its_loss_is_the_textbook_bound_rounded_up(opendp):
    """Against 50 digits, for losses that are too large for OpenDP's conversion."""
    for length in (1e3, 3e4, 7e5, 1e7, 1e9):
        told = opendp.loss(Gaussian(1.0), (length,), 1e-5)
        with mpmath.workdps(50):
            rho = mpmath.mpf(length) ** 2 / 2
            bound = rho + 2 * mpmath.sqrt(-rho * mpmath.log(mpmath.mpf(1e-5)))
            assert bound <= told <= bound * (1 + 1e-14)


@given(shift=steps, scale=st.floats(1e-6, 1e6))
def test_the_loss_of_numpy_noise_is_that_of_its_law(shift, scale):
    for noise in (Laplace(scale), Gaussian(scale)):
        assert NumpyNoise(0).loss(noise, shift, 1e-5) == noise.loss(shift, 1e-5)


# Rounding.


rewards = st.floats(0, 1) | st.sampled_from([0.0, -0.0, 1.0, 5e-324, 0.1, 1 - 2**-53])


@given(st.lists(rewards, min_size=1, max_size=50))
def test_sums_of_rewards_are_exact(values):
    assert exact_sum(np.array(values)) == sum(map(Fraction, values))
    assert array_sum(values) == (sum(map(Fraction, values)), len(values))


def test_a_sum_of_a_million_rewards_does_not_overflow():
    """In units of the last place it has 73 bits, more than a 64-bit integer."""
    values = np.full(10**6, np.nextafter(1, 0))
    assert exact_sum(values) == 10**6 * Fraction(float(values[0]))


def plan(release, pulls):
    arms = tuple(range(len(pulls)))
    decoder = None if release is None else np.ones((len(arms), len(release)))
    return Phase(1, arms, arms, tuple(pulls), Laplace(1.0), 1, release, decoder)


def shifts(phase):
    """Return the shifts for which the certificate of a phase asks its source of noise."""
    asked = []

    class Account:
        name, remarks, add = "account", (), NumpyNoise.add

        def loss(self, _noise, shift, _delta):
            asked.append(tuple(map(Fraction, shift)))
            return 0.0

    dpbai.certify([phase], mechanism=Account())
    return asked


def hidden(phase, before, after):
    """Return whether the certified shifts cover a change of the statistic, in both norms."""
    move = [abs(Fraction(b) - Fraction(a)) for a, b in zip(before, after, strict=True)]
    return all(
        sum(step**power for step in move)
        <= max(sum(step**power for step in shift) for shift in shifts(phase))
        for power in (1, 2)
    )


matrices = st.lists(
    st.lists(st.just(0.0) | st.floats(1e-3, 1e3) | st.floats(-1e3, -1e-3), min_size=3, max_size=3),
    min_size=1,
    max_size=4,
)


@given(
    matrix=st.none() | matrices.map(np.array),
    pulls=st.lists(st.integers(1, 30), min_size=3, max_size=3),
    seed=st.integers(0, 1000),
    arm=st.integers(0, 2),
    old=rewards,
    new=rewards,
)
def test_one_reward_never_changes_the_statistic_by_more_than_the_shifts(
    matrix, pulls, seed, arm, old, new
):
    phase = plan(matrix, pulls)
    rng = np.random.default_rng(seed)
    statistics = []
    others = [exact_sum(rng.random(n - (i == arm))) for i, n in enumerate(pulls)]
    for one in (old, new):
        sums = [total + Fraction(one) * (i == arm) for i, total in enumerate(others)]
        statistics.append(exact_statistic(phase, sums))
    assert hidden(phase, *statistics)


@given(matrix=matrices.map(np.array), pulls=st.lists(st.integers(1, 30), min_size=3, max_size=3))
def test_shifts_are_those_of_real_arithmetic_and_one_rounding(matrix, pulls):
    """In exact numbers: the change, and one unit in the last place of the largest statistic."""
    phase = plan(matrix, pulls)
    found = shifts(phase)
    sizes = [sum(abs(Fraction(entry)) for entry in row) for row in matrix.tolist()]
    for column, n in zip(matrix.T.tolist(), pulls, strict=True):
        needed = [
            (abs(Fraction(entry)) / n + Fraction(math.ulp(float(size)))) * (entry != 0)
            for entry, size in zip(column, sizes, strict=True)
        ]
        assert any(
            all(
                least <= step <= least * (1 + Fraction(1, 10**12))
                for step, least in zip(shift, needed, strict=True)
            )
            for shift in found
        )


def test_a_statistic_is_rounded_once_where_its_terms_cancel():
    """1e16 + 1 is not a double, so rounding each term would give 0."""
    phase = plan(np.array([[1e16, 1.0, -1e16]]), (1, 1, 1))
    assert exact_statistic(phase, [Fraction(1)] * 3) == (1.0,)


def test_floating_point_sums_would_change_by_more_than_the_shifts():
    """Mutant: add doubles in the order in which they are given.

    Beyond 1024, the distance between doubles is twice as large: each small reward after that is
    rounded up to twice its size if the first reward is 1, but not if it is 0.
    """
    tail = [1.0] * 1023 + [1.01 * 2**-43] * 5000
    phase = plan(None, (1 + len(tail),))
    naive, exact = [], []
    for first in (0.0, 1.0):
        values = np.array([first, *tail])
        naive.append((float(np.cumsum(values)[-1]) / len(values),))
        exact.append(exact_statistic(phase, [exact_sum(values)]))
    assert not hidden(phase, *naive)
    assert hidden(phase, *exact)


# NumPy noise, and OpenDP if it is not installed.


def test_a_session_with_numpy_noise_warns_and_a_fixed_seed_warns_once_more(tmp_path):
    with pytest.warns(ReleaseWarning, match="use OpenDPNoise for a real release") as caught:
        Session(THREE_ARMS, noise=NumpyNoise())
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(ReleaseWarning) as caught:
        Session(THREE_ARMS, noise=NumpyNoise(0), path=tmp_path / "run.json")
    assert len(caught) == 2
    assert "fixed seed" in str(caught[1].message)
    with pytest.warns(ReleaseWarning) as caught:
        Session.resume(tmp_path / "run.json")
    assert [warning.filename for warning in caught] == [__file__]


def test_a_session_with_opendp_noise_does_not_warn():
    """A warning would be an error here."""
    Session(THREE_ARMS, noise=OpenDPNoise())


def test_seeded_numpy_noise_depends_on_the_seed_and_the_phase_alone():
    def draw(seed, phase):
        return NumpyNoise(seed).add(Laplace(1.0), [0.0] * 3, phase=phase)

    again = NumpyNoise(1)
    again.add(Laplace(1.0), [0.0] * 5, phase=1)
    assert draw(1, 2) == again.add(Laplace(1.0), [0.0] * 3, phase=2)
    assert draw(1, 2) == draw(np.random.SeedSequence(1), 2)
    assert len({draw(1, 1), draw(1, 2), draw(2, 1), draw(None, 1), draw(None, 1)}) == 5
    assert len({draw(seed, 1) for seed in (1, *np.random.SeedSequence(1).spawn(2))}) == 3
    # Ties are broken independently of the noise.
    assert again.generator(1, 1).random() != again.generator(1).random()


def test_without_opendp_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(ImportError, match=r"pip install 'dpbai\[opendp\]'"):
        OpenDPNoise()
    with pytest.raises(ImportError, match="opendp"):
        Session(THREE_ARMS)


# Releases outside a session.


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
    # Both statistics are pure noise, with different scales.
    ratios = np.divide(again.statistic, session.released[0].statistic)
    assert np.ptp(ratios) > 1e-6


def test_a_release_with_noise_for_simulation_warns_and_has_its_remarks() -> None:
    noise = dpbai.NumpyNoise()
    with pytest.warns(ReleaseWarning):
        found = release(PLAN, REWARDS, noise=noise)
    assert found.remarks == noise.remarks


def test_the_delta_of_a_release_is_that_of_its_plan() -> None:
    assert release(replace(PLAN, noise=Gaussian(1.0), delta=1e-5), REWARDS).delta == 1e-5


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
def test_other_rewards_are_refused_and_not_quoted(rewards: object) -> None:
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
