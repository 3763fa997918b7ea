"""Policies on arms whose means are real, or off from linear ones: success and loss with intervals.

`book/data/reactions.csv` counts how often 316 people said that they would react in each of 24 ways
(`book/real_arms.ipynb` has its source). The full table is taken as the truth. Made tables have
linear means between 0.2 and 0.8, plus deviations of standard deviation tau, new ones in each table;
the policies are told of no tau. Compared are DPDesign as it is, with misfit=0 and infinity, and
DP-BAI.

Prints a row for each policy and cell, as comma-separated values: those that the chapter on real
arms shows (`book/data/misfit.csv`) came from it without arguments, and from each family with
0 0.02 0.05 0.1. `half` belongs to the 95 % interval of the success rate. `lead` is the mean loss of
DPDesign less that of the best of the others on the same tables (of misfit=0, where tau is 0), and
`lead_half` belongs to its interval.
"""

import argparse
import csv
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf, nan
from pathlib import Path

import numpy as np
from design_grid import correlated, one_hot, scaled, sphere

import dpbai

COUNTS = Path(__file__).parents[1] / "book" / "data" / "reactions.csv"
CELLS = ((500, 1), (2000, 0.1), (2000, 1), (10_000, 0.1), (10_000, 1))
POLICIES = {
    "DP-Design": dpbai.DPDesign,
    "misfit 0": partial(dpbai.DPDesign, misfit=0),
    "one-hot": partial(dpbai.DPDesign, misfit=inf),
    "DP-BAI": dpbai.DPBAI,
}


def uniform(arms: int, dimension: int, rng: np.random.Generator) -> dpbai.Instance:
    """Draw features uniform on the cube, and a constant."""
    return scaled(rng.uniform(size=(arms, dimension - 1)), rng.normal(size=dimension - 1))


FAMILIES: dict[str, tuple[Callable[..., dpbai.Instance], int, int]] = {
    "uniform": (uniform, 30, 4),
    "sphere": (sphere, 40, 4),
    "one-hot": (one_hot, 24, 10),
    "correlated": (correlated, 60, 6),
}
HEADER = (
    *("source", "tau", "budget", "epsilon", "policy"),
    *("success_rate", "half", "loss", "lead", "lead_half"),
)


def reactions() -> dpbai.Instance:
    """Return the arms of the table, with indicators of behaviour, scene and mode."""
    with COUNTS.open() as lines:
        rows = list(csv.DictReader(lines))
    columns = [[1.0] * len(rows)]
    for name in ("behaviour", "scene", "mode"):
        words = sorted({row[name] for row in rows})
        columns += [[float(row[name] == word) for row in rows] for word in words[1:]]
    laws = [
        dpbai.Empirical([0, 0.5, 1], [float(row[word]) for word in ("no", "perhaps", "yes")])
        for row in rows
    ]
    return dpbai.Instance(np.array(columns).T, rewards=laws)


@dataclass(frozen=True)
class Source:
    """Tables of which some have the same features: `groups` of instances."""

    groups: list[list[dpbai.Instance]]

    def losses(
        self, make: Callable[..., dpbai.Policy], budget: int, epsilon: float, trials: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return success and mean loss on each table."""
        runs = []
        for group in self.groups:
            policy = make(group[0].features, budget=budget, epsilon=epsilon)
            seeds = range(len(runs), len(runs) + len(group))
            runs += [
                dpbai.simulate(policy, instance, trials=trials, seed=seed)
                for seed, instance in zip(seeds, group, strict=True)
            ]
        return tuple(np.array([(run.within(1e-9), run.regret) for run in runs]).T)


def made(family: str, tau: float, groups: int, tables: int, seed: int) -> Source:
    """Return tables with means that are off from linear ones, kept in [0, 1]."""
    make, arms, dimension = FAMILIES[family]
    source = []
    for group in range(groups):
        features = make(arms, dimension, np.random.default_rng([seed, group])).features
        source.append([])
        for number in range(tables):
            rng = np.random.default_rng([seed, group, number])
            linear = scaled(features[:, 1:], rng.normal(size=features.shape[1] - 1))
            means = (linear.means + tau * rng.standard_normal(len(features))).clip(0, 1).tolist()
            laws = [dpbai.Bernoulli(mean) for mean in means]
            source[-1].append(dpbai.Instance(linear.features, rewards=laws, unique=False))
    return Source(source)


def half_width(values: np.ndarray, trials: int) -> float:
    """Return half of a 95 % interval: over tables or, for success on one, over trials."""
    if len(values) > 1:
        return float(1.96 * values.std(ddof=1) / len(values) ** 0.5)
    return float(1.96 * (values[0] * (1 - values[0]) / trials) ** 0.5)


def compared(name: str, tau: float, source: Source, cell: tuple[int, float], trials: int) -> None:
    """Print a row for each policy, the first with its lead over the best of the others."""
    rows, losses = [], []
    for policy, make in POLICIES.items():
        success, loss = source.losses(make, *cell, trials)
        rows.append([policy, success.mean(), half_width(success, trials), loss.mean()])
        losses.append(loss)
    if len(losses[0]) > 1:
        ours, *others = losses
        lead = ours - (min(others, key=np.mean) if tau else others[0])
        rows[0] += [lead.mean(), half_width(lead, trials)]
    for policy, *numbers in rows:
        row = [name, tau, *cell, policy, *(f"{number:.4f}" for number in numbers)]
        csv.writer(sys.stdout).writerow(row + [""] * (len(HEADER) - len(row)))
    sys.stdout.flush()


def main() -> None:
    """Print the rows of the reactions, or of made tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("family", nargs="?", choices=FAMILIES)
    parser.add_argument("tau", nargs="*", type=float)
    parser.add_argument(
        "--trials", type=int, help="a table: 1000 on the reactions, 50 on made ones"
    )
    parser.add_argument("--groups", type=int, default=1, help="draws of features")
    parser.add_argument("--tables", type=int, default=10, help="for each of them")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    csv.writer(sys.stdout).writerow(HEADER)
    for cell in CELLS:
        if not given.family:
            compared("reactions", nan, Source([[reactions()]]), cell, given.trials or 1000)
        for tau in given.tau:
            source = made(given.family, tau, given.groups, given.tables, given.seed)
            compared(given.family, tau, source, cell, given.trials or 50)


if __name__ == "__main__":
    main()
