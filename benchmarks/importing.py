"""The time of `import dpbai`, of a policy and of the command line's help, against NumPy and SciPy.

Each time is the CPU time of a new interpreter, minus that of one that does nothing. The last column
is its ratio to the time of importing NumPy and the parts of SciPy that the library needs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

from timing import table

BASE = "import numpy, scipy.linalg, scipy.optimize, scipy.special"
HELP = "import sys; sys.argv[1:] = ['--help']; from dpbai.__main__ import main; main()"
CODE = {
    "numpy, scipy.linalg, .optimize, .special": BASE,
    "import dpbai": "import dpbai",
    "dpbai.DPBAI": "import dpbai; dpbai.DPBAI",
    "all names of dpbai": "from dpbai import *",
    "dpbai --help": HELP,
    "import pandas, scipy.stats": f"{BASE}; import pandas, scipy.stats",
}


def seconds(code: str) -> float:
    """Return the CPU seconds of a new interpreter that runs some code."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    spent = after.children_user + after.children_system
    return spent - before.children_user - before.children_system


def main() -> None:
    taken: dict[str, list[float]] = {name: [] for name in ("empty", *CODE)}
    for _ in range(7):
        taken["empty"].append(seconds("pass"))
        for name, code in CODE.items():
            taken[name].append(seconds(code))
    empty = median(taken["empty"])
    times = {name: median(taken[name]) - empty for name in CODE}
    base = times[next(iter(CODE))]
    table(("what", "seconds", "ratio"), [(name, time, time / base) for name, time in times.items()])
    print(f"an empty interpreter: {empty:.3g} seconds")


if __name__ == "__main__":
    main()
