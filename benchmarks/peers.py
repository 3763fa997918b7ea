"""DP-Design, other policies, private and not, and an oracle that knows the means.

Prints one row for each policy, instance and epsilon, as comma-separated values, which the chapter
on DP-Design shows (`book/data/peers.csv`). Rewards are Bernoulli except in the last instance. There
are 4000 trials, but 1000 for generalised successive elimination, which is slow to plan.
"""

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import ceil, inf, log2
from typing import Any

import numpy as np
from design_grid import sphere, without_structure
from scipy import optimize, stats

import dpbai

BUDGETS, TRIALS, FEW = (500, 1500), 4000, 1000


def divided(shares: np.ndarray, total: int) -> np.ndarray:
    """Round shares of all pulls to whole numbers, at least one for each arm of the support."""
    least = (shares > 0).astype(int)
    exact = shares * (total - least.sum())
    whole = np.floor(exact).astype(int)
    order = np.argsort(whole - exact)
    whole[order[: total - least.sum() - whole.sum()]] += 1
    return whole + least


def least_squares(
    features: np.ndarray,
    active: Sequence[int],
    pulls: np.ndarray,
    index: int,
    keep: int,
    epsilon: float = inf,
) -> dpbai.Phase:
    """Return a phase that releases sums and decodes them by weighted least squares."""
    vectors, pulled = features[list(active)], np.flatnonzero(pulls)
    n = pulls[pulled].astype(float)
    rows = vectors[pulled] * n[:, None]
    precision = 1 / (n / 4 + 2 / epsilon**2)
    decoder = vectors @ np.linalg.pinv((rows.T * precision) @ rows, hermitian=True)
    decoder = decoder @ (rows.T * precision)
    noise = dpbai.NoNoise() if epsilon == inf else dpbai.Laplace(1 / epsilon)
    arms = tuple(active[i] for i in pulled)
    counts = tuple(pulls[pulled].tolist())
    return dpbai.Phase(index, tuple(active), arms, counts, noise, keep, np.diag(n), decoder)


@dataclass(frozen=True)
class GBAI:
    """One G-optimal batch, as in G-BAI, with rounded pulls and least squares."""

    features: np.ndarray
    budget: int

    def phase(self, index: int, active: Sequence[int]) -> dpbai.Phase:
        """Return the only phase."""
        shares = dpbai.g_optimal_design(self.features).weights
        pulls = divided(shares, self.budget)
        return least_squares(self.features, active, pulls, index, keep=1)


def g_bai(instance: dpbai.Instance, budget: int, trials: int, seed: int) -> int:
    """Return the number of runs in which G-BAI (Xiong et al., 2024) finds the best arm.

    It draws each arm from the G-optimal design, and weights rewards by the design instead of by the
    numbers of draws. Only for rewards of 0 or 1.
    """
    rng, arms = np.random.default_rng(seed), instance.features
    shares = dpbai.g_optimal_design(arms).weights
    pulls = rng.multinomial(budget, shares / shares.sum(), size=trials)
    sums = rng.binomial(pulls, instance.means)
    moments = np.linalg.pinv((arms.T * shares) @ arms, hermitian=True)
    return int(((sums @ arms @ moments @ arms.T).argmax(axis=1) == instance.best).sum())


@dataclass(frozen=True)
class SuccessiveElimination:
    """Generalised successive elimination (Azizi et al., 2022): halve after each G-optimal batch."""

    features: np.ndarray
    budget: int

    def phase(self, index: int, active: Sequence[int]) -> dpbai.Phase:
        """Return the plan of phase `index`."""
        total = self.budget // ceil(log2(len(self.features)))
        shares = dpbai.g_optimal_design(self.features[list(active)]).weights
        pulls = divided(shares, total)
        return least_squares(self.features, active, pulls, index, keep=ceil(len(active) / 2))


@dataclass(frozen=True)
class Oracle:
    """One batch with the best pulls for the true means, by the normal approximation."""

    instance: dpbai.Instance
    budget: int
    epsilon: float

    @property
    def features(self) -> np.ndarray:
        """Feature vectors of the instance."""
        return self.instance.features

    def phase(self, index: int, active: Sequence[int]) -> dpbai.Phase:
        """Return the only phase."""
        pulls = divided(self.shares(), self.budget)
        return least_squares(self.features, active, pulls, index, 1, self.epsilon)

    def shares(self) -> np.ndarray:
        """Return a local optimum from four starts, with small shares left out."""
        arms, budget, epsilon = self.features, self.budget, self.epsilon
        near = dpbai.private_design(arms, pulls=budget, epsilon=epsilon).pulls / budget
        even = np.full(len(arms), 1 / len(arms))
        close = np.exp(-8 * self.instance.gaps / self.instance.gaps.max())
        starts = [near, even, close / close.sum(), dpbai.g_optimal_design(arms).weights]
        found = [
            optimize.minimize(
                self.errors, np.log(0.98 * s + 0.02 * even), jac=True, method="L-BFGS-B"
            )
            for s in starts
        ]
        shares = np.exp(min(found, key=lambda each: each.fun).x)
        shares = np.where(shares < 2e-3 * shares.sum(), 0, shares)
        return shares / shares.sum()

    def errors(self, logs: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the sum of the rivals' normal tails, and its gradient in the logs of shares."""
        shares = np.exp(logs - logs.max())
        shares /= shares.sum()
        shares = np.maximum(shares, 1e-12)
        n, ratio, arms = self.budget * shares, 8 / self.epsilon**2, self.features
        moments = (arms.T * (4 * n**2 / (n + ratio))) @ arms
        inverse = np.linalg.inv(moments + 1e-9 * np.trace(moments) * np.eye(len(moments)))
        rivals = np.arange(len(arms)) != self.instance.best
        contrasts = arms[self.instance.best] - arms[rivals]
        moved = contrasts @ inverse @ arms.T
        deviation = np.sqrt(np.maximum((contrasts @ inverse * contrasts).sum(axis=1), 1e-12))
        lead = self.instance.gaps[rivals] / deviation
        slope = stats.norm.pdf(lead) * lead / (2 * deviation**2)
        down = -(slope @ moved**2) * 4 * n * (n + 2 * ratio) / (n + ratio) ** 2 * self.budget
        return float(stats.norm.sf(lead).sum()), shares * (down - down @ shares)


def uniform(arms: int, dimension: int, seed: int) -> dpbai.Instance:
    """Draw features uniform on the cube; the best mean is 0.8, the next 0.7."""
    features = np.random.default_rng(seed).uniform(size=(arms, dimension))
    features *= 0.7 / features[1:].mean(axis=1).max()
    features[0] = 0.8
    return dpbai.Instance(features, np.full(dimension, 1 / dimension), rewards=dpbai.Bernoulli)


def soare(dimension: int, omega: float) -> dpbai.Instance:
    """Return the example of Soare et al. (2014): a basis, and an arm close to its first vector."""
    close = np.r_[np.cos(omega), np.sin(omega), np.zeros(dimension - 2)]
    features = np.vstack([np.eye(dimension), close])
    return dpbai.Instance(features, 0.8 * np.eye(dimension)[0], rewards=dpbai.Bernoulli)


def instances() -> dict[str, dpbai.Instance]:
    """Return the instances, with the names that the chapter prints."""
    paper = dpbai.synthetic(seed=0)
    return {
        "uniform, K = 60, d = 8": uniform(60, 8, seed=8),
        "sphere, K = 100, d = 4": sphere(100, 4, np.random.default_rng(1)),
        "sphere, K = 60, d = 9": sphere(60, 9, np.random.default_rng(1)),
        "no structure, K = 16": without_structure(np.linspace(0.7, 0.3, 16)),
        "Soare et al., K = 11": soare(10, 0.3),
        "Sec. 5, Bernoulli": dpbai.Instance(paper.features, paper.theta, rewards=dpbai.Bernoulli),
        "Sec. 5": paper,
    }


Maker = Callable[[dpbai.Instance, int, float], dpbai.Policy]


def given(policy: Callable[..., dpbai.Policy]) -> Maker:
    """Return a function that makes a policy of the library."""
    return lambda instance, budget, epsilon: policy(
        instance.features, budget=budget, epsilon=epsilon
    )


PROOF = partial(dpbai.DPBAI, convention="proof")
MAKERS: dict[str, tuple[Maker, tuple[float, ...], int]] = {
    "DP-Design": (given(partial(dpbai.DPDesign, misfit=0)), (inf, 1, 0.2), TRIALS),
    "oracle": (Oracle, (inf, 1, 0.2), TRIALS),
    "G-BAI, rounded": (lambda instance, budget, _: GBAI(instance.features, budget), (inf,), TRIALS),
    "DP-BAI": (given(dpbai.DPBAI), (1, 0.2), TRIALS),
    "DP-BAI, proof's sizes": (given(PROOF), (1, 0.2), TRIALS),
    "OD-LinBAI": (
        lambda instance, budget, _: dpbai.ODLinBAI(instance.features, budget=budget),
        (inf,),
        TRIALS,
    ),
    "DP-Halving": (given(dpbai.DPHalving), (1, 0.2), TRIALS),
    "elimination": (
        lambda instance, budget, _: SuccessiveElimination(instance.features, budget),
        (inf,),
        FEW,
    ),
}
"""For each policy, the function that makes it, the values of epsilon and the number of trials."""


def results(budgets: Sequence[int], only: str | None) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the table."""
    for budget, (name, (make, epsilons, trials)) in product(budgets, MAKERS.items()):
        for epsilon, (kind, instance) in product(epsilons, instances().items()):
            if only in (None, name):
                policy = make(instance, budget, epsilon)
                runs = dpbai.simulate(policy, instance, trials=trials, seed=1)
                yield budget, kind, name, epsilon, trials, runs.success_rate, *runs.interval()
    for budget, (kind, instance) in product(budgets, instances().items()):
        if only in (None, "G-BAI") and all(isinstance(w, dpbai.Bernoulli) for w in instance.laws):
            right = g_bai(instance, budget, TRIALS, seed=1)
            ends = stats.binomtest(right, TRIALS).proportion_ci(method="wilson")
            yield budget, kind, "G-BAI", inf, TRIALS, right / TRIALS, ends.low, ends.high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=int, action="append", help="default: 500 and 1500")
    parser.add_argument("--only", help="one policy, by its name")
    given = parser.parse_args()
    out = csv.writer(sys.stdout, lineterminator="\n")
    columns = ("budget", "instance", "policy", "epsilon", "trials", "success_rate", "low", "high")
    out.writerow(columns)
    for *about, rate, low, high in results(given.budget or BUDGETS, given.only):
        out.writerow([*about, *(f"{value:.4f}" for value in (rate, low, high))])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
