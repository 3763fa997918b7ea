"""Timing of several functions against each other in one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from time import process_time


def interleaved(calls: Mapping[str, Callable[[], object]], repeats: int = 7) -> dict[str, float]:
    """Return the median seconds of each call over `repeats` rounds, each with all calls once.

    Times are CPU times of this process. Since calls are interleaved, other work on the machine
    affects all of them alike, so that ratios are meaningful and seconds are not. Each call is made
    once before.
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
