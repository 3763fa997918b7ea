"""One point of Figure 1 (T = 400, epsilon = 0.5) exactly, against 1000 simulated trials.

Prints, for each policy, the exact success probability, both times, and their ratio. A simulation of
1000 trials has a standard error of up to 0.016; the exact probability has a relative error of 1e-9.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import dpbai


def fastest(run: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    instance = dpbai.synthetic()
    policies: dict[str, dpbai.Policy] = {
        "DP-BAI": dpbai.DPBAI(instance.features, budget=400, epsilon=0.5),
        "Baseline": dpbai.Baseline(instance.features, budget=400, epsilon=0.5),
        "DP-OD": dpbai.DPOD(instance.features, budget=400, epsilon=0.5),
        "OD-LinBAI": dpbai.ODLinBAI(instance.features, budget=400),
    }
    print(f"{'policy':<10} {'success':>10} {'exact':>10} {'1000 trials':>12} {'ratio':>7}")
    for name, policy in policies.items():
        success = dpbai.exact_success(policy, instance)
        exact = fastest(lambda policy=policy: dpbai.exact_success(policy, instance))
        trials = fastest(lambda policy=policy: dpbai.simulate(policy, instance, trials=1000))
        print(
            f"{name:<10} {success:>10.6f} {exact * 1e3:>7.1f} ms {trials * 1e3:>9.1f} ms "
            f"{exact / trials:>7.2f}"
        )


if __name__ == "__main__":
    main()
