"""Ratios of times within one run: what all benchmarks here are made of.

Times on a shared machine say little; the ratio of two things timed in turn says much. Each pair is
run A B A B ... and the median of the pairwise ratios is printed, with the smallest and the largest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

Action = Callable[[], object]


def seconds(action: Action) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def ratios(first: Action, second: Action, *, repeats: int = 7) -> list[float]:
    """Return the pairwise ratios of the times of two actions, after one warm-up of each."""
    first(), second()
    return sorted(seconds(first) / seconds(second) for _ in range(repeats))


def row(name: str, values: list[float], target: str) -> None:
    """Print one line of the table: median, smallest, largest ratio, and what is aimed at."""
    print(f"{name:58} {median(values):10.3g} {values[0]:10.3g} {values[-1]:10.3g}   {target}")


def header(title: str) -> None:
    """Print the head of a table."""
    print(f"{title:58} {'median':>10} {'least':>10} {'most':>10}   target")
