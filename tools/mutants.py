"""Change the library in one place at a time, and see whether the tests notice.

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
KILLED = ("killed", "timeout", "segfault")


def mutmut(*arguments: str) -> str:
    """Run mutmut, with copies of the library and the tests in `mutants/`; return what it prints."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "mutants")}
    done = subprocess.run(
        [MUTMUT, *arguments], cwd=ROOT, env=environment, check=False, text=True, capture_output=True
    )
    return done.stdout + done.stderr


def verdicts() -> dict[str, str]:
    """Return what became of each mutant, by its name."""
    lines = mutmut("results", "--all", "true").splitlines()
    return dict(line.strip().split(": ", 1) for line in lines if line.startswith("    "))


def main() -> int:
    """Test a sample of mutants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    shutil.rmtree(ROOT / "mutants", ignore_errors=True)
    (ROOT / "mutants").mkdir()
    log = mutmut("run", "--max-children", "1", "none of them")  # makes them, and times the tests
    every = sorted(verdicts())
    if not every or "failed to collect" in log:
        print(log[-4000:], file=sys.stderr)
        return 1
    chosen = random.Random(arguments.seed).sample(every, min(arguments.sample, len(every)))
    log = mutmut("run", "--max-children", "1", *chosen)
    found = verdicts()
    if any(found[name] == "not checked" for name in chosen):
        print(log[-4000:], file=sys.stderr)
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
