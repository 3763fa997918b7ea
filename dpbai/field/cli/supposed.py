"""Supposed means of arms: those of --means, or those in which an arm leads by --gap."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.beyond import gaps
from dpbai.beyond.dp_design import usual_misfit
from dpbai.beyond.planning import SearchError
from dpbai.exact import NotExactError, exact_success
from dpbai.field.cli import advice, arguments, tables
from dpbai.field.cli.arguments import Law
from dpbai.field.cli.sheets import nearest, quoted
from dpbai.field.cli.tables import Arms
from dpbai.instance import Instance
from dpbai.phase import Policy
from dpbai.simulate import Simulation, simulate

MOST_ARMS = 40  # looked at as the best arm
_MOST_MEANS = 12  # printed
_OFF_TRIALS = 200
_TABLES = 20  # of means that are off from linear ones
_MEANING = (
    "What epsilon means: two sets of rewards are neighbours if they differ in one reward of one "
    "pull. An observer of everything that a run releases, who knows all rewards but one, can "
    "improve the odds of a guess about that one by a factor of at most e^epsilon (for "
    "dp-bai-gauss: up to a further probability of delta). A guess that was right with probability "
    "50 % is right with at most"
)


@dataclass(frozen=True)
class Supposed:
    """Supposed means of arms; lengths are in the units of rewards, except in `instance`."""

    given: argparse.Namespace
    labels: Sequence[str]
    law: Law
    instance: Instance

    @classmethod
    def of(cls, given: argparse.Namespace, arms: Arms, means: FloatArray) -> Supposed:
        """Suppose means of rewards in [0, 1]."""
        law = arguments.REWARDS[given.law]
        return cls(given, arms.labels, law, _instance(arms.features, law, means))

    @property
    def width(self) -> float:
        """The length of the reward range."""
        return float(self.given.reward_range.width)

    @property
    def within(self) -> float:
        """How far below the best mean a right answer may be, for rewards in [0, 1]."""
        return float(self.given.within / self.width)

    @property
    def best(self) -> str:
        """The names of the best arms."""
        return " or ".join(quoted(self.labels[arm]) for arm in self.instance.ties)

    @property
    def right(self) -> str:
        """Which answers are right, and how often they are wanted."""
        gaps = self.instance.gaps
        right = f"{self.best} (ahead by {self.width * min(gaps[gaps > 0], default=0.0):.4g})"
        if self.within:
            right = f"at most {self.given.within:g} below {self.best}"
        return f"an answer that is {right} with probability {self.given.success:g}"

    @property
    def note(self) -> list[str]:
        """The means of --gap, from the best down; of many arms the first and the last."""
        if self.given.means is not None:
            return []
        # Equal means, up to rounding of the linear programs, in the order of the table.
        order = np.argsort(-self.instance.means.round(6), kind="stable").tolist()
        means = self.given.reward_range.shown(self.instance.means).tolist()
        entries = [f"{quoted(self.labels[arm])} {means[arm]:.3g}" for arm in order]
        if len(entries) > _MOST_MEANS:
            entries[_MOST_MEANS - 2 : -1] = ["..."]
        return [f"Means taken for --gap: {', '.join(entries)}"]

    def deviation(self, policy: Policy) -> float:
        """Return by how much means may be off, for rewards in [0, 1]: --misfit, or its default."""
        if 0 < (self.given.misfit or 0) <= 1:
            return float(self.given.misfit)
        epsilon = vars(policy).get("epsilon", math.inf)
        return usual_misfit(len(self.labels), policy.budget, epsilon)

    def run(self, policy: Policy, trials: int | None = None) -> Simulation:
        """Simulate a policy."""
        trials = trials or self.given.trials
        return simulate(policy, self.instance, trials=trials, seed=self.given.seed)

    def success(self, policy: Policy, trials: int) -> tuple[float, float, float]:
        """Return the success probability and an interval of it, a point if it is exact."""
        if not self.within:
            with suppress(NotExactError):
                return (exact_success(policy, self.instance),) * 3
        result = self.run(policy, trials)
        return (result.within(self.within), *result.interval(within=self.within))

    def off(self, policy: Policy, trials: int) -> tuple[float, float]:
        """Return success and mean loss if means deviate from those of `instance`."""
        rng, law, found = _check.generator(self.given.seed), self.law, []
        deviation = self.deviation(policy)
        for seed in range(_TABLES):
            deviations = deviation * rng.standard_normal(self.instance.arms)
            means = (self.instance.means + deviations).clip(law.lowest, law.highest)
            instance = _instance(self.instance.features, law, means)
            result = simulate(policy, instance, trials=max(1, trials // _TABLES), seed=seed)
            found.append((result.within(self.within), result.regret))
        success, loss = np.mean(found, axis=0).tolist()
        return success, loss * self.width

    def searched(
        self, search: Callable[..., Any], option: str, make: Callable[..., Policy]
    ) -> tuple[Any, Policy] | None:
        """Search the least value of an option of a policy; return what is found, and the policy."""

        def made(value: float) -> Policy:
            return make(**{option: value})

        wanted: dict[str, Any] = {
            "error": 1 - self.given.success,
            "within": self.within,
            "trials": self.given.trials,
            "seed": self.given.seed,
        }
        try:
            found = search(made, self.instance, **wanted, progress=sys.stderr.isatty())
        except SearchError:
            return None
        return found, made(getattr(found, option))

    def closing(
        self, found: Sequence[tuple[str, Policy, str]], epsilons: Iterable[float]
    ) -> list[str]:
        """Return what to add to a table of names, policies and settings: models and meanings."""
        tried = [(*entry, self.deviation(entry[1])) for entry in found if entry[2]]
        sizes = sorted({size for *_, size in tried})
        off = [
            f"{name} {self.off(policy, _OFF_TRIALS)[0]:.2g} at {setting}"
            + f" (off by {size:g})" * (len(sizes) > 1)
            for name, policy, setting, size in tried
        ]
        means = "that are linear in the features" if self.given.means is None else "as given"
        aside = (
            f"The table is for means {means}. If they are off by about "
            f"{' to '.join(f'{size:g}' for size in sizes)} of the reward range, "
            f"an answer is right with probability: {', '.join(off)}."
        )
        meanings = (
            f"  {100 / (1 + math.exp(-epsilon)):.3g} % at epsilon = {epsilon:.4g}"
            for epsilon in sorted(set(epsilons))
        )
        group = "If one person gives several rewards, multiply epsilon by their number."
        return [
            *dict.fromkeys(advice.model(policy, name) for name, policy, _ in found),
            *([aside, "", _MEANING, *meanings, group] if off else []),
        ]


def _instance(features: FloatArray, law: Law, means: FloatArray) -> Instance:
    laws = [law.make(mean) for mean in means.tolist()]
    return Instance(features, rewards=laws, unique=False)


def supposed(given: argparse.Namespace, arms: Arms) -> Supposed:
    """Return the means of --means, or of --gap: those with the smallest gaps in all."""
    if given.means is None:
        return min(leading(given, arms), key=lambda case: float(case.instance.gaps.sum()))
    if given.best is not None:
        raise ValueError("--best goes with --gap, not with --means")
    scale, law = given.reward_range, arguments.REWARDS[given.law]
    means = np.array(tables.read_means(given, arms.labels))
    inside = (means - scale.low) / scale.width
    for arm in np.flatnonzero((inside < law.lowest) | (inside > law.highest)):
        low, high = map(scale.shown, (law.lowest, law.highest))
        raise ValueError(
            f"mean of arm {arms.labels[arm]!r} must lie in [{low:g}, {high:g}] for {given.law} "
            f"rewards, got {means[arm]:g}"
        )
    return Supposed.of(given, arms, inside)


def leading(given: argparse.Namespace, arms: Arms) -> list[Supposed]:
    """Return means with which an arm leads by --gap: --best, or each arm, or a spread of many."""
    labels, best, scale = arms.labels, given.best, given.reward_range
    if best is not None and best not in labels:
        raise ValueError(f"--best must be one of the arms, got {best!r}{nearest(best, labels)}")
    least = gaps.SMALLEST * scale.width
    if given.gap < least:
        raise ValueError(
            f"--gap must be at least {least:g}, a millionth of the reward range, got "
            f"{given.gap:g}: no budget is large enough to see a smaller one"
        )
    spread = np.linspace(0, len(labels) - 1, min(len(labels), MOST_ARMS))
    tried = spread.astype(int).tolist() if best is None else [labels.index(best)]
    # Plans have no law of rewards: those of 0 and 1 are the ones that vary most.
    law = arguments.REWARDS[given.law]
    limits = law.lowest, law.highest
    found = [gaps.closest(arms.features, arm, given.gap / scale.width, *limits) for arm in tried]
    if cases := [Supposed.of(given, arms, means) for means in found if means is not None]:
        return cases
    low, high = map(scale.shown, limits)
    most = scale.width * max(gaps.largest(arms.features, arm, *limits) for arm in tried)
    which = "no arm can" if best is None else f"arm {quoted(best)} cannot"
    model = f"with means that are linear in these features and lie in [{low:g}, {high:g}], {which}"
    if most >= least:
        raise ValueError(
            f"--gap must be at most {most:.3g}, got {given.gap:g}: {model} lead by more"
        )
    another = "" if best is None else ", or another arm by --best"
    constant = "" if tables.has_constant(arms.features) else ", or add a constant by --intercept"
    raise ValueError(
        f"--gap needs an arm that can lead, and {model} be ahead of all others: choose other "
        f"features{another}{constant}"
    )
