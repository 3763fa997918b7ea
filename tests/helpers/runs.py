"""Tables for commands, and what they answer."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import dpbai


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def requests_of(output: str) -> dict[str, int]:
    """Return how often to pull each arm, from what `dpbai next` prints."""
    return {row["arm"]: int(row["pulls"]) for row in csv.DictReader(io.StringIO(output))}


def finish(path: Path) -> dpbai.Session:
    """Give a session all rewards that it asks for, 1/2 each."""
    session = dpbai.Session.resume(path)
    while session.requests:
        session.record({arm: [0.5] * n for arm, n in session.requests.items()})
    return session
