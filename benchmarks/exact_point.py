"""Exact points of Figure 1: one (T = 400, epsilon = 0.5), then all 264 of the paper's study.

For each policy, the first table has the success probability, and its time in units of DP-BAI's and
of 1000 simulated trials. A simulation of 1000 trials has a standard error of up to 0.016; the exact
probability has a relative error of 1e-9.
"""

from __future__ import annotations

from functools import partial

from timing import interleaved, table

import dpbai

BUDGETS = (100, 200, 300, 400, 600, 800, 1000, 1200, 1400, 1600, 1800, 2000)
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5)
MAKERS = {"DP-BAI": dpbai.DPBAI, "Baseline": dpbai.Baseline, "DP-OD": dpbai.DPOD}


def main() -> None:
    instance = dpbai.synthetic()
    features = instance.features
    point = {name: make(features, budget=400, epsilon=0.5) for name, make in MAKERS.items()}
    point["OD-LinBAI"] = dpbai.ODLinBAI(features, budget=400)
    exact = {name: partial(dpbai.exact_success, policy, instance) for name, policy in point.items()}
    trials = {
        name: partial(dpbai.simulate, policy, instance, trials=1000)
        for name, policy in point.items()
    }
    seconds = interleaved({(name, "exact"): call for name, call in exact.items()} | trials)
    table(
        ("policy", "success", "in DP-BAIs", "in 1000 trials"),
        [
            (
                name,
                exact[name](),
                seconds[name, "exact"] / seconds["DP-BAI", "exact"],
                seconds[name, "exact"] / seconds[name],
            )
            for name in point
        ],
    )

    study = [
        make(features, budget=budget, epsilon=epsilon)
        for make in MAKERS.values()
        for budget in BUDGETS
        for epsilon in EPSILONS
    ] + [dpbai.ODLinBAI(features, budget=budget) for budget in BUDGETS]

    def all_exact() -> None:
        for policy in study:
            dpbai.exact_success(policy, instance, rtol=1e-5)

    def all_simulated() -> None:
        for policy in study:
            dpbai.simulate(policy, instance, trials=1000)

    whole = interleaved({"exact": all_exact, "simulated": all_simulated}, repeats=1)
    print()
    table(
        ("points", "exact / 1000 trials each", "seconds of exact"),
        [(len(study), whole["exact"] / whole["simulated"], whole["exact"])],
    )


if __name__ == "__main__":
    main()
