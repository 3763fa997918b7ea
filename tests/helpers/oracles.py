"""What several tests compare with: runs of the plain loop, brute force, bad features."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from hypothesis import strategies as st
from plain_loop import DPBAILoop, ODLoop
from scipy import stats

import dpbai

FALSE_ALARM = 1e-6
"""Largest probability with which a statistical test may fail although all is right."""


@cache
def synthetic() -> dpbai.Instance:
    """Return an instance of Sec. 5, where DP-BAI has one phase and two arms to pull."""
    return dpbai.synthetic(seed=0)


@cache
def ladder() -> dpbai.Instance:
    """Return 20 arms in four dimensions: DP-BAI has phases of 20, 6 and 2 arms, OD-LinBAI two."""
    rng = np.random.default_rng(20)
    features = rng.uniform(0, 1, (20, 4))
    return dpbai.Instance(features, [0.04, 0.3, 0.02, 0.1])


@cache
def oblique() -> dpbai.Instance:
    """Return 12 arms in three dimensions, whose Max-Det collection is far from orthogonal."""
    rng = np.random.default_rng(4)
    features = rng.normal(size=(12, 3))
    features[:, 2] = 1
    return dpbai.Instance(features, [0.06, -0.05, 0.25])


@dataclass(frozen=True)
class Case:
    """A policy of the library, and the same one as a plain loop."""

    instance: dpbai.Instance
    policy: Callable[[np.ndarray], dpbai.Policy]
    loop: Callable[[np.ndarray], DPBAILoop | ODLoop]

    @cache  # noqa: B019  (a few cases, which live as long as the tests)
    def loop_successes(self, runs: int, seed: int) -> int:
        """Count runs of the loop that find the best arm, with the standard library's generator."""
        draw = random.Random(seed).random
        scales = (2 * self.instance.means).tolist()
        rng = np.random.default_rng(seed)
        loop = self.loop(self.instance.features)
        arms = [loop.run(lambda arm: scales[arm] * draw(), rng).arm for _ in range(runs)]
        return arms.count(self.instance.best)

    def p_value(self, *, runs: int = 3000, trials: int = 20_000, seed: int = 0) -> float:
        """Return Fisher's exact p-value that library and loop succeed equally often."""
        successes = self.loop_successes(runs, seed)
        result = dpbai.simulate(
            self.policy(self.instance.features), self.instance, trials=trials, seed=seed
        )
        table = [
            [result.successes, trials - result.successes],
            [successes, runs - successes],
        ]
        return float(stats.fisher_exact(table).pvalue)


@cache
def case(instance: dpbai.Instance, name: str, budget: int, epsilon: float) -> Case:
    """Return the case of a policy by name."""
    delta = 1e-3
    classic = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    given = {"budget": budget, "epsilon": epsilon}
    pairs: dict[str, tuple[Callable[..., dpbai.Policy], Callable[..., DPBAILoop | ODLoop]]] = {
        "DP-BAI": (
            lambda x: dpbai.DPBAI(x, **given),
            lambda x: DPBAILoop(x, **given),
        ),
        "Baseline": (
            lambda x: dpbai.Baseline(x, **given),
            lambda x: DPBAILoop(x, **given, pull_all=True),
        ),
        "Baseline as printed": (
            lambda x: dpbai.Baseline(x, **given, budget_rule="printed"),
            lambda x: DPBAILoop(x, **given, pull_all=True, strict=False),
        ),
        "DP-BAI-Gauss": (
            lambda x: dpbai.DPBAIGauss(x, **given, delta=delta, calibration="classic"),
            lambda x: DPBAILoop(x, **given, sigma=classic),
        ),
        "OD-LinBAI": (
            lambda x: dpbai.ODLinBAI(x, budget=budget),
            lambda x: ODLoop(x, budget),
        ),
        "DP-OD": (
            lambda x: dpbai.DPOD(x, **given),
            lambda x: ODLoop(x, **given),
        ),
        "DP-OD, L1": (
            lambda x: dpbai.DPOD(x, **given, norm="l1"),
            lambda x: ODLoop(x, **given, norm=1),
        ),
    }
    return Case(instance, *pairs[name])


def best_subsets(vectors: np.ndarray, rank: int) -> tuple[float, list[tuple[int, ...]]]:
    """Return the largest volume of `rank` rows, and all subsets that reach it, by brute force."""
    volumes = {
        subset: math.sqrt(max(0.0, np.linalg.det(vectors[list(subset)] @ vectors[list(subset)].T)))
        for subset in combinations(range(len(vectors)), rank)
    }
    largest = max(volumes.values())
    return largest, [subset for subset, v in volumes.items() if v >= largest * (1 - 1e-9)]


@st.composite
def bad_features(draw: st.DrawFn, max_arms: int = 25, max_dimension: int = 6) -> np.ndarray:
    """Draw features as users have them: deficient, repeated, with zeros, and badly scaled."""
    arms = draw(st.integers(2, max_arms))
    dimension = draw(st.integers(1, max_dimension))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    inner = draw(st.integers(1, dimension))
    features = rng.normal(size=(arms, inner)) @ rng.normal(size=(inner, dimension))
    match draw(st.sampled_from(["general", "integer", "repeated", "zeros", "same"])):
        case "integer":
            features = rng.integers(-2, 3, size=(arms, dimension)).astype(float)
        case "repeated":
            features = features[rng.integers(0, max(1, arms // 3), arms)]
        case "zeros":
            features[rng.random(arms) < 0.5] = 0
        case "same":
            features = np.tile(features[0], (arms, 1))
        case _:
            pass
    if draw(st.booleans()):
        features = features * 10.0 ** rng.integers(-8, 9, size=(1, dimension))
    if draw(st.booleans()):
        features = features * rng.choice([1e-8, 1.0, 1.0, 1.0, 1e8], size=(arms, 1))
    return features


def seen_by_least_squares(features: np.ndarray) -> np.ndarray:
    """Return the arms with columns of like size, without arms a million times shorter than others.

    Least squares in given coordinates cannot see arms a hundred million times shorter.
    """
    features = features / np.abs(features).max(axis=0, where=features != 0, initial=1e-300)
    lengths = np.abs(features).max(axis=1)
    return features[(lengths == 0) | (lengths > 1e-6 * lengths.max())]
