"""Likely mistakes, made deliberately: each is detected by a check of another test.

A check here returns whether it would fail. `rates_differ` compares success rates with the plain
loop, as test_simulate does (where it passes); `plans_differ` compares the arms and their pulls; and
`estimates_differ` requires that true means lead to true estimates.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from oracles import FALSE_ALARM, case, ladder, oblique, synthetic
from scipy import stats

from dpbai import DPBAI, DPOD, Gaussian, Laplace, ODLinBAI, Uniform, max_det, schedule
from dpbai.ranking import Ranking
from dpbai.schedule import Schedule

ORIGINAL_SUMS = Uniform.sums


def rates_differ(checked):
    """Whether success rates differ, or the run raises an error."""
    try:
        return checked.p_value() < FALSE_ALARM
    except (ValueError, TypeError):
        return True


def plans_differ(checked):
    """Whether the first phase differs from the plain loop in arms or in pulls."""
    features = checked.instance.features
    phase = checked.policy(features).phase(1, range(len(features)))
    run = checked.loop(features).run(lambda _: 0.5, np.random.default_rng(0))
    return run.pulls[0] != dict(zip(phase.pulled, phase.pulls, strict=True))


def sums_differ(checked):
    """Whether 3000 sums of 20 rewards differ in law from 3000 sums of 20 uniforms."""
    law, rng = checked.instance.laws[0], np.random.default_rng(0)
    direct = 2 * law.mean * rng.random((3000, 20)).sum(axis=1)
    return stats.ks_2samp(law.sums(20, 3000, rng), direct).pvalue < FALSE_ALARM


def sizes_differ(checked):
    """Whether the sizes of the active sets differ from those of the plain loop."""
    features = checked.instance.features
    return checked.policy(features).schedule.sizes != tuple(checked.loop(features).sizes)


def estimates_differ(checked):
    """Whether estimates from the true means of the pulled arms differ from all true means."""
    phase = checked.policy(checked.instance.features).phase(1, range(checked.instance.arms))
    estimates = phase.estimates(phase.statistic(checked.instance.means[list(phase.pulled)]))
    return not np.allclose(estimates, checked.instance.means)


def survivors_with(change):
    """Return a mutant of `Ranking.survivors` that changes estimates or how many are kept."""

    def survivors(self, released, rng):  # noqa: ARG001
        estimates = released if self.decoder is None else released @ self.decoder.T
        estimates, keep = change(self, estimates)
        order = np.argsort(-estimates, axis=1, kind="stable")
        kept = np.zeros(estimates.shape[::-1], dtype=bool)
        kept[order[:, :keep].T, np.arange(len(estimates))] = True
        return kept

    return survivors


def noise_with(scale):
    """Return a mutant of `DPBAI.noise` with another Laplace scale."""
    return lambda self, pulls: Laplace(scale(self.epsilon, pulls))


def smallest_in_the_last_phase(self, estimates):
    return (-estimates if self.keep == 1 else estimates), self.keep


def two_in_the_last_phase(self, estimates):
    return estimates, max(2, self.keep)


def one_more(self, estimates):
    return estimates, self.keep + (self.keep > 1)


def one_less(self, estimates):
    return estimates, max(1, self.keep - 1)


def reordered(span):
    """A mutant of the coordinates in the Max-Det collection: its arms in reverse order."""
    found = max_det(span)
    return replace(found, coordinates=found.coordinates[:, ::-1])


def transposed(span):
    """A mutant of the coordinates in the Max-Det collection: columns instead of rows."""
    found = max_det(span)
    basis = span.vectors[found.indices]
    return replace(found, coordinates=np.linalg.solve(basis, span.vectors.T).T)


def printed_sizes_from_the_proof(self):
    """A mutant of eq. (s-p): the second stage starts at g_0, one phase longer."""
    stage = [self.g[0] + self.h[p - 1] for p in range(1, self.M1 + 1)]
    return (*stage, *self.g[0 if self.M1 else 1 : self.g.index(1) + 1])


DP_BAI = (synthetic, "DP-BAI", 120, 0.9)
TIGHT = (synthetic, "DP-BAI", 120, 0.4)
LADDER = (ladder, "DP-BAI", 240, 1.5)
OBLIQUE = (oblique, "DP-BAI", 240, 1.5)
DP_OD = (synthetic, "DP-OD", 120, 0.9)

MUTANTS = {
    "argmin for argmax in the last phase": (
        Ranking, "survivors", survivors_with(smallest_in_the_last_phase), DP_BAI, rates_differ),
    "argmin in the last phase of several": (
        Ranking, "survivors", survivors_with(smallest_in_the_last_phase), LADDER, rates_differ),
    "two arms kept in the last phase": (
        Ranking, "survivors", survivors_with(two_in_the_last_phase), DP_BAI, rates_differ),
    "one arm too many kept": (Ranking, "survivors", survivors_with(one_more), LADDER, rates_differ),
    "one arm too few kept": (Ranking, "survivors", survivors_with(one_less), LADDER, rates_differ),
    "the proof's sizes for the printed ones": (
        Schedule, "sizes", property(printed_sizes_from_the_proof), LADDER, sizes_differ),
    "noise twice too large": (
        DPBAI, "noise", noise_with(lambda e, n: 2 / (e * n)), DP_BAI, rates_differ),
    "noise half as large": (
        DPBAI, "noise", noise_with(lambda e, n: 0.5 / (e * n)), TIGHT, rates_differ),
    "noise inverted": (DPBAI, "noise", noise_with(lambda e, n: e * n), DP_BAI, rates_differ),
    "epsilon inverted": (DPBAI, "noise", noise_with(lambda e, n: e / n), TIGHT, rates_differ),
    "noise not divided by the number of pulls": (
        DPBAI, "noise", noise_with(lambda e, _: 1 / e), DP_BAI, rates_differ),
    "noise with the variance for the deviation": (
        DPBAI, "noise", noise_with(lambda e, n: 2 / (e * n) ** 2), DP_BAI, rates_differ),
    "Gaussian noise for Laplace noise": (
        DPBAI, "noise", lambda self, n: Gaussian(4 / (self.epsilon * n)), DP_BAI,
        rates_differ),
    "no noise in DP-OD": (DPOD, "noise", ODLinBAI.noise, DP_OD, rates_differ),
    "noise of DP-OD divided by the pulls": (
        DPOD, "noise", lambda self, _: Laplace(10 / self.epsilon / 59), DP_OD, rates_differ),
    "sums not divided by the number of pulls": (
        Uniform, "sums", lambda *a: a[1] * ORIGINAL_SUMS(*a), TIGHT, rates_differ),
    "rewards on [0, mu]": (
        Uniform, "sums", lambda *a: ORIGINAL_SUMS(*a) / 2, DP_BAI, rates_differ),
    "rewards on [0, 4 mu]": (
        Uniform, "sums", lambda *a: ORIGINAL_SUMS(*a) * 2, TIGHT, rates_differ),
    "one sum for all trials": (
        Uniform, "sums", lambda law, n, size, rng: ORIGINAL_SUMS(law, n, 1, rng).repeat(size),
        DP_BAI, sums_differ),
    "one pull too few": (
        Uniform, "sums", lambda law, n, *a: ORIGINAL_SUMS(law, n - 1, *a), DP_BAI, sums_differ),
    "decoder in another order": ("dpbai.policies.max_det", None, reordered, LADDER, rates_differ),
    "decoder transposed": (
        "dpbai.policies.max_det", None, transposed, OBLIQUE, estimates_differ),
    "pulls rounded down": (schedule, "ceil_div", lambda a, b: a // b, (ladder, "DP-BAI", 241, 1.5),
        plans_differ),
    "pulls of a design rounded down": (
        "dpbai.policies._ROUNDING", None, 1, (synthetic, "OD-LinBAI", 120, 1.0), plans_differ),
    "T' not divided among the phases": (
        Schedule, "pulls", lambda _, usable, m: math.ceil(usable / m), LADDER, plans_differ),
    "nothing reserved for rounding up": (
        Schedule, "reserve", property(lambda _: 0), LADDER, plans_differ),
    "Max-Det below the square, not the root": (
        "dpbai.policies.pulls_max_det", None, lambda rank, size: rank < size**2, LADDER,
        lambda checked: any(
            len(checked.policy(checked.instance.features).phase(2, active).pulled) != 6
            for active in [(0, 1, 2, 3, 4, 5)])),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name, monkeypatch):
    target, attribute, mutant, (instance, policy, budget, epsilon), check = MUTANTS[name]
    checked = case(instance(), policy, budget, epsilon)
    assert not check(checked), "the check must pass as long as nothing is changed"
    if attribute is None:
        monkeypatch.setattr(target, mutant)
    else:
        monkeypatch.setattr(target, attribute, mutant)
    assert check(checked)
