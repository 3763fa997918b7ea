"""Timing of a few functions against each other, in one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from time import process_time


def interleaved(calls: Mapping[str, Callable[[], object]], repeats: int = 7) -> dict[str, float]:
    """Return the median seconds of each call; all of them once in each of so many rounds.

    Times are those of this process's CPU, and rounds are interleaved, so that other work on the
    machine weighs on all of them alike. Read ratios, not seconds. Each call is made once before.
    """
    for call in calls.values():
        call()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = process_time()
            call()
            taken[name].append(process_time() - start)
    return {name: median(times) for name, times in taken.items()}


def table(header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    """Print rows under a header, in columns."""
    lines = [header, *[tuple(_cell(value) for value in row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
