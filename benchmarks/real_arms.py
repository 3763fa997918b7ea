"""Policies on arms whose means are real, or off from linear ones: success and loss with intervals.

`book/data/reactions.csv` counts how often 316 people said that they would react in each of 24 ways
(`book/real_arms.ipynb` has its source). The full table is taken as the truth. Made tables are
linear but for deviations of standard deviation tau, new ones in each of 20 tables; the policies are
told of no tau. Prints success, its 95 % interval and the mean loss of DPDesign as it is, with
misfit=0 and infinity, and of DP-BAI.
"""

import argparse
import csv
from functools import partial
from math import inf, nan
from pathlib import Path

import numpy as np
from design_grid import correlated, one_hot, sphere, uniform
from timing import table

import dpbai

COUNTS = Path(__file__).parents[1] / "book" / "data" / "reactions.csv"
CELLS = ((500, 1), (2000, 0.1), (2000, 1), (10_000, 0.1), (10_000, 1))
POLICIES = {
    "DP-Design": dpbai.DPDesign,
    "misfit 0": partial(dpbai.DPDesign, misfit=0),
    "one-hot": partial(dpbai.DPDesign, misfit=inf),
    "DP-BAI": dpbai.DPBAI,
}
FAMILIES = {uniform: (30, 3), sphere: (40, 4), one_hot: (24, 10), correlated: (60, 6)}
TAUS, TABLES = (0, 0.02, 0.05, 0.1), 20


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


def off(instance: dpbai.Instance, tau: float, seed: int) -> dpbai.Instance:
    """Return an instance whose means are off from linear ones, kept in [0, 1]."""
    delta = tau * np.random.default_rng(seed).standard_normal(instance.arms)
    means = (instance.means + delta).clip(0, 1).tolist()
    laws = [dpbai.Bernoulli(mean) for mean in means]
    return dpbai.Instance(instance.features, rewards=laws, unique=False)


def cells(policy: dpbai.Policy, instances: list[dpbai.Instance], trials: int) -> tuple[str, float]:
    """Return success with its interval, and the mean loss, over the instances."""
    runs = [
        dpbai.simulate(policy, instance, trials=trials // len(instances), seed=seed)
        for seed, instance in enumerate(instances)
    ]
    rates = [run.within(1e-9) for run in runs]
    rate = float(np.mean(rates))
    spread = np.std(rates, ddof=1) if len(rates) > 1 else (rate * (1 - rate)) ** 0.5
    half = 1.96 * spread / (len(rates) if len(rates) > 1 else trials) ** 0.5
    return f"{rate:.3f} +- {half:.3f}", float(np.mean([run.regret for run in runs]))


def main() -> None:
    """Print a table for each source of arms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--made", action="store_true", help="also the made tables")
    given = parser.parse_args()
    sources = {"reactions": [reactions()]}
    if given.made:
        for family, shape in FAMILIES.items():
            linear = family(*shape, np.random.default_rng(0))
            for tau in TAUS:
                seeds = range(TABLES) if tau else range(1)
                sources[f"{family.__name__}, tau {tau:g}"] = [off(linear, tau, s) for s in seeds]
    for name, instances in sources.items():
        rows = []
        for budget, epsilon in CELLS:
            row: list[object] = [budget, epsilon]
            for make in POLICIES.values():
                rate, loss = "-", nan
                if budget > instances[0].arms:
                    policy = make(instances[0].features, budget=budget, epsilon=epsilon)
                    rate, loss = cells(policy, instances, given.trials)
                row += [rate, f"{loss:.3f}"]
            rows.append(tuple(row))
        header = ["T", "epsilon"]
        for policy_name in POLICIES:
            header += [policy_name, "loss"]
        print(f"\n{name}", flush=True)
        table(tuple(header), rows)


if __name__ == "__main__":
    main()
