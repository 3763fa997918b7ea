"""Planning with 10^4 arms in 16 dimensions: a policy and its first phase, against one pivoted QR.

The first phase of DP-BAI is the most expensive: a Max-Det search over all arms, and a decoder for
each. The first phase of DPDesign includes the choice of phases; its target is ten swap searches.
The second table has searches for the least budget of two arms, in units of one exact error
probability. Such a search also decides every smaller plan.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg
from timing import interleaved, table

import dpbai

ARMS, DIMENSION, BUDGET = 10_000, 16, 10**6
GAPS = (0.1, 0.05, 0.01, 0.002)


def main() -> None:
    features = np.random.default_rng(0).standard_normal((ARMS, DIMENSION))

    def first_phase(make: Callable[[], dpbai.Policy]) -> Callable[[], object]:
        return lambda: make().phase(1, range(ARMS))

    calls = {
        "one pivoted QR": lambda: linalg.qr(features.T, mode="economic", pivoting=True),
        "one swap search": lambda: dpbai.max_det(features, max_subsets=0),
        "DPDesign": first_phase(lambda: dpbai.DPDesign(features, budget=BUDGET, epsilon=1.0)),
        "DP-BAI": first_phase(lambda: dpbai.DPBAI(features, budget=BUDGET, epsilon=1.0)),
        "Baseline": first_phase(lambda: dpbai.Baseline(features, budget=BUDGET, epsilon=1.0)),
        "OD-LinBAI": first_phase(lambda: dpbai.ODLinBAI(features, budget=BUDGET)),
        "DP-OD": first_phase(lambda: dpbai.DPOD(features, budget=BUDGET, epsilon=1.0)),
    }
    times = interleaved(calls, repeats=3)
    bases = times["one pivoted QR"], times["one swap search"]
    rows = [(name, time, *(time / base for base in bases)) for name, time in times.items()]
    table(("policy and first phase", "seconds", "in QRs", "in swap searches"), rows)
    print()
    header = ("gap", "least budget", "seconds", "in exact errors", "smaller plans")
    table(header, [search(gap) for gap in GAPS])


def search(gap: float) -> tuple[float, int, float, float, int]:
    """Return the cost of a search for the least budget with an error probability of 0.05."""
    arms = dpbai.two_armed(gap=gap, means="in-range")

    def make(budget: int) -> dpbai.Policy:
        return dpbai.DPBAI(arms.features, budget=budget, epsilon=0.5)

    found = dpbai.smallest_budget(make, arms).budget
    calls: dict[str, Callable[[], object]] = {
        "search": lambda: dpbai.smallest_budget(make, arms),
        "error": lambda: dpbai.exact_error(make(found), arms, rtol=1e-2),
    }
    times = interleaved(calls, repeats=3)
    ratio = times["search"] / times["error"]
    return gap, found, times["search"], ratio, make(found).phase(1, (0, 1)).pulls[0] - 1


if __name__ == "__main__":
    main()
