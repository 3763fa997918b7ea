"""What a simulation costs: against the budget, the plain loop, and the draws alone.

- Flat in the budget: 1000 trials of DP-BAI at T = 10^9 against T = 10^4.
- Against the plain loop of `plain_loop.py`, per trial, at T = 10^5.
- Against the floor: 10^5 trials of a one-phase policy, against drawing as many rewards (or
  binomials, where there are many pulls) and Laplace variates from the same generator.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from plain_loop import DPBAILoop, uniform_rewards
from ratios import header, ratios, row

import dpbai

INSTANCE = dpbai.synthetic()
PRIVATE = {"DP-BAI": dpbai.DPBAI, "Baseline": dpbai.Baseline, "DP-OD": dpbai.DPOD}


def dp_bai(budget: int) -> dpbai.DPBAI:
    return dpbai.DPBAI(INSTANCE.features, budget=budget, epsilon=0.5)


def run(policy: dpbai.Policy, trials: int) -> object:
    return dpbai.simulate(policy, INSTANCE, trials=trials, seed=0)


def plain_trial(budget: int) -> object:
    rng = np.random.default_rng(0)
    loop = DPBAILoop(INSTANCE.features, budget, 0.5)
    return loop.run(uniform_rewards(INSTANCE.means.tolist(), rng), rng)


def draws_alone(policy: dpbai.Policy, trials: int) -> None:
    """Draw what the policy needs of the generator, the cheaper way, and do nothing with it."""
    rng = np.random.default_rng(0)
    phase = policy.phase(1, range(INSTANCE.arms))
    for pulls in phase.pulls:
        if pulls < 700:
            rows = max(1, 2**20 // pulls)
            for start in range(0, trials, rows):
                rng.random((min(rows, trials - start), pulls))
        else:
            for _ in range(53):
                rng.binomial(pulls, 0.5, trials)
    rng.laplace(size=(trials, phase.coordinates))


def main() -> None:
    header("Flat in the budget, 1000 trials")
    flat = ratios(partial(run, dp_bai(10**9), 1000), partial(run, dp_bai(10**4), 1000))
    row("DP-BAI, T = 10^9 against T = 10^4", flat, "<= 2")

    header("Against the plain loop, T = 10^5, per trial")
    slow = ratios(partial(plain_trial, 10**5), partial(run, dp_bai(10**5), 10_000), repeats=5)
    row("one trial of the loop against one of 10,000", [r * 10_000 for r in slow], ">= 10,000")

    header("Against the draws alone, 10^5 trials")
    for budget in (400, 10**5):
        for name, maker in PRIVATE.items():
            policy = maker(INSTANCE.features, budget=budget, epsilon=0.5)
            floor = partial(draws_alone, policy, 10**5)
            row(
                f"{name}, T = {budget}",
                ratios(partial(run, policy, 10**5), floor, repeats=3),
                "<= 2",
            )


if __name__ == "__main__":
    main()
