"""Peak memory, each case in a separate process; target: below 1 GiB."""

import subprocess
import sys

from timing import table

TARGET = 1.0

CASES = {
    "imports alone": "pass",
    "10^6 trials of DP-BAI, one phase": """
instance = dpbai.synthetic(seed=0)
policy = dpbai.DPBAI(instance.features, budget=10**5, epsilon=1.0)
dpbai.simulate(policy, instance, trials=10**6)""",
    "10^6 trials of Baseline, 30 arms": """
instance = dpbai.synthetic(seed=0)
policy = dpbai.Baseline(instance.features, budget=100, epsilon=1.0)
dpbai.simulate(policy, instance, trials=10**6)""",
    "10^6 trials of DP-BAI, three phases": """
features = np.random.default_rng(20).uniform(0, 1, (20, 4))
instance = dpbai.Instance(features, [0.04, 0.3, 0.02, 0.1])
policy = dpbai.DPBAI(features, budget=2000, epsilon=1.0)
dpbai.simulate(policy, instance, trials=10**6)""",
    "max_det, K = 10^5, d = 32": """
dpbai.max_det(np.random.default_rng(0).normal(size=(10**5, 32)))""",
    "a design, K = 10^5, d = 4": """
dpbai.g_optimal_design(np.random.default_rng(0).normal(size=(10**5, 4)))""",
}

# Linux counts in KiB, macOS in bytes.
MEASURE = """
import resource, sys
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak / (2**30 if sys.platform == "darwin" else 2**20))"""


def peak(code: str) -> float:
    """Return the peak memory of a process that runs `code`, in GiB."""
    script = f"import numpy as np\nimport dpbai\n{code}\n{MEASURE}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    table(("case", "GiB", "target"), [(name, peak(code), TARGET) for name, code in CASES.items()])


if __name__ == "__main__":
    main()
