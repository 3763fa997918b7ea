"""`simulate` against drawing its binomial, uniform and Laplace variates alone.

The cases are 10^5 trials of one-phase policies on the instance of Sec. 5. The floor draws the same
numbers with the same generator, in blocks that fit into the cache, and discards them. With 199
pulls of an arm, rewards are drawn one by one; with 4999, their sum is drawn bit by bit. Bernoulli
rewards need one binomial. OD-LinBAI with Bernoulli rewards is the hardest case: its floor is two
binomials per trial without noise, computing and comparing thirty estimates would cost about as
much, and planning takes a tenth of that. If two coordinates are released, only a few arms can win,
so the target is lower than for Baseline.
"""

from functools import partial

import numpy as np
from timing import interleaved, table

import dpbai
from dpbai import rewards

TRIALS = 10**5
BLOCK = 2**15
TARGET = {"Baseline": 2.0}
OTHERS = 1.5


def floor(phase: dpbai.Phase, instance: dpbai.Instance, rng: np.random.Generator) -> None:
    """Draw the random numbers of one phase and discard them."""
    for arm, pulls in zip(phase.pulled, phase.pulls, strict=True):
        law = instance.laws[arm]
        if isinstance(law, dpbai.Bernoulli):
            rng.binomial(pulls, law.mean, TRIALS)
        elif pulls < rewards._DIRECT_BELOW:
            for _ in range(-(-TRIALS * pulls // BLOCK)):
                rng.random(BLOCK)
        else:
            for _ in range(53):
                rng.binomial(pulls, 0.5, TRIALS)
    if isinstance(phase.noise, dpbai.Laplace):
        rng.laplace(scale=phase.noise.scale, size=(TRIALS, phase.coordinates))


def main() -> None:
    uniform = dpbai.synthetic(seed=0)
    bernoulli = dpbai.Instance(uniform.features, uniform.theta, rewards=dpbai.Bernoulli)
    cases = [
        (maker, name, budget, instance)
        for name, maker in {
            "DP-BAI": partial(dpbai.DPBAI, epsilon=1.0),
            "DP-OD": partial(dpbai.DPOD, epsilon=1.0),
            "OD-LinBAI": dpbai.ODLinBAI,
        }.items()
        for budget, instance in ((400, uniform), (10_000, uniform), (10_000, bernoulli))
    ]
    baseline = partial(dpbai.Baseline, epsilon=1.0)
    cases += [(baseline, "Baseline", 400, uniform), (baseline, "Baseline", 10_000, bernoulli)]
    rows = []
    for maker, name, budget, instance in cases:
        policy = maker(uniform.features, budget=budget)
        phase = policy.phase(1, range(30))
        rng = np.random.default_rng(0)
        seconds = interleaved(
            {
                "simulate": partial(dpbai.simulate, policy, instance, trials=TRIALS, seed=0),
                "floor": partial(floor, phase, instance, rng),
            },
            repeats=5,
        )
        law = type(instance.laws[0]).__name__
        ratio = seconds["simulate"] / seconds["floor"]
        rows.append(
            (
                name,
                law,
                budget,
                phase.pulls[0],
                1e3 * seconds["simulate"],
                ratio,
                TARGET.get(name, OTHERS),
            )
        )
    table(("policy", "rewards", "budget", "pulls of an arm", "ms", "times floor", "target"), rows)


if __name__ == "__main__":
    main()
