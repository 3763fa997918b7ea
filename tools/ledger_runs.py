"""Run the tests of the claims ledger, and store how many cases each has and its share of the time.

The ledger shows both beside the command of each claim: `python tools/ledger_runs.py` writes
`book/ledger_runs.json`, after tests that the ledger names have been added or changed.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import yaml

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "book" / "ledger_runs.json"


def place(name: str) -> str:
    """Return the pytest identifier of the test FILE::CLAIM of the ledger."""
    file, _, claim = name.partition("::")
    [path] = [
        path
        for path in (ROOT / "tests").rglob(f"test_{file}.py")
        if f"def test_{claim}(" in path.read_text(encoding="utf-8")
    ]
    return f"{path.relative_to(ROOT).as_posix()}::test_{claim}"


def named() -> list[str]:
    """Return the tests that the ledger names."""
    ledger = yaml.safe_load((ROOT / "book" / "ledger.yml").read_text(encoding="utf-8"))
    claims = [claim for section in ledger.values() for claim in section]
    return sorted({name for claim in claims for name in claim.get("tests", [])})


def measured(report: Path) -> dict[str, dict[str, Any]]:
    """Return the number of cases of each test in a report, and its share of the time in percent."""
    cases: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.attrib["classname"].rpartition(".test_")[2]
        name = f"{file}::{case.attrib['name'].partition('[')[0].removeprefix('test_')}"
        cases[name] += 1
        seconds[name] += float(case.attrib["time"])
    whole = sum(seconds.values())
    return {
        name: {
            "test": place(name),
            "cases": cases[name],
            "share": round(100 * seconds[name] / whole, 1),
        }
        for name in sorted(cases)
    }


def main() -> int:
    """Run the tests, and write the file unless one fails."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", f"--junitxml={report}"]
        done = subprocess.run([*command, *map(place, named())], cwd=ROOT)
        if done.returncode == 0:
            RUNS.write_text(json.dumps(measured(report), indent=1) + "\n", encoding="utf-8")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
