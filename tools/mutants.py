"""Change the library in one place at a time, and see whether a test fails.

`make mutants` draws a sample of such mutants and prints the share that the tests kill, and each
survivor with its change. `pyproject.toml` says what is mutated, and which tests judge it.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MUTMUT = Path(sys.executable).with_name("mutmut")
MUTANTS = ROOT / "mutants"
KILLED = ("killed", "timeout", "segfault")


def mutmut(*arguments: str, shown: bool = False) -> str:
    """Run mutmut on copies of the library and the tests; return what it prints, or show it."""
    done = subprocess.run(
        [MUTMUT, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(MUTANTS)},
        stdout=None if shown else subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.stdout or ""


def verdicts() -> dict[str, str]:
    """Return the result of each mutant, by its name."""
    lines = mutmut("results", "--all", "true").splitlines()
    return dict(line.strip().split(": ", 1) for line in lines if line.startswith("    "))


def main() -> int:
    """Test a sample of mutants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    shutil.rmtree(MUTANTS, ignore_errors=True)
    MUTANTS.mkdir()
    # No mutant has this name: all are made, the tests run once, and it ends with an error.
    mutmut("run", "--max-children", "1", "none", shown=True)
    every = sorted(verdicts())
    chosen = random.Random(arguments.seed).sample(every, min(arguments.sample, len(every)))
    if chosen:
        mutmut("run", "--max-children", "1", *chosen, shown=True)
    found = verdicts()
    if not chosen or "not checked" in {found[name] for name in chosen}:
        print("The tests must pass on the library as it is; see above.", file=sys.stderr)
        return 1
    survivors = [name for name in chosen if found[name] not in KILLED]
    for name in survivors:
        change = [line for line in mutmut("show", name).splitlines() if re.match(r"[-+] ", line)]
        print(f"{found[name]}: {name}", *change, "", sep="\n")
    killed = len(chosen) - len(survivors)
    print(f"{killed} of {len(chosen)} mutants killed ({killed / len(chosen):.1%}), of {len(every)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
