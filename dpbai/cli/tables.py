"""CSV files in and out. What is wrong with rewards is told by the line, and never by the value."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray

Row = tuple[int, list[str]]
STANDARD_INPUT = "-"


def read_arms(path: str) -> tuple[tuple[str, ...], FloatArray]:
    """Return labels and features, shape (K, d), of a file with columns arm, then the features."""
    header, rows = _read(path, ("arm", ...))
    if len(header) < 2:
        raise ValueError(f"{path}: after column arm there must be a column for each feature")
    labels = _labels(path, rows)
    features = [
        [
            _number(text, f"{path}, line {line}: {name} of arm {cells[0]!r}", told=True)
            for name, text in zip(header[1:], cells[1:], strict=True)
        ]
        for line, cells in rows
    ]
    return labels, np.array(features, dtype=np.float64)


def read_means(path: str, labels: Sequence[str]) -> list[float]:
    """Return the means, in the order of `labels`, of a file with columns arm and mean."""
    _, rows = _read(path, ("arm", "mean"))
    given = _labels(path, rows)
    if set(given) != set(labels):
        missing = sorted(set(labels).symmetric_difference(given))
        raise ValueError(f"{path}: it must hold each arm once, but {missing[0]!r} is in one file")
    means = {
        cells[0]: _number(cells[1], f"{path}, line {line}: mean of arm {cells[0]!r}", told=True)
        for line, cells in rows
    }
    return [means[label] for label in labels]


def read_rewards(path: str, labels: Sequence[str]) -> dict[str, tuple[Fraction, int]]:
    """Return sums and counts by arm, of a file with columns arm, reward or arm, total, count."""
    header, rows = _read(path, ("arm", "reward"), ("arm", "total", "count"))
    sums: dict[str, tuple[Fraction, int]] = {}
    for line, cells in rows:
        where = f"{path}, line {line}"
        # Not quoted: a file with its columns the wrong way round has rewards here.
        if cells[0] not in labels:
            raise ValueError(f"{where}: this is none of the arms")
        value = _number(cells[1], f"{where}: {header[1]}", told=False)
        count = 1
        if len(cells) == 3:
            count = _count(cells[2], f"{where}: count")
        if not 0 <= value <= count:
            rule = "in [0, 1]" if len(cells) == 2 else "between 0 and count"
            raise ValueError(f"{where}: {header[1]} must lie {rule}")
        total, number = sums.get(cells[0], (Fraction(), 0))
        sums[cells[0]] = total + Fraction(value), number + count
    return sums


class Table(NamedTuple):
    """A table to show and to write; None and NaN are blank in it."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def write(table: Table, path: str | None) -> None:
    """Write a table as CSV, if a file is named."""
    if path is not None:
        with _named(path).open("w", encoding="utf-8", newline="") as file:
            write_to(file, table)


def write_to(file: TextIO, table: Table) -> None:
    """Write a table as CSV, each number in full."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([_cell(value, repr) for value in row] for row in table.rows)


def show(table: Table) -> None:
    """Print a table, aligned, with four digits of each number."""
    lines = [
        table.columns,
        *([_cell(value, "{:.4g}".format) for value in row] for row in table.rows),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print(" ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def _cell(value: object, number: Callable[[float], str]) -> str:
    """Return what a cell says: a number that is no whole one in the way of `number`."""
    if value is None or value != value:
        return ""
    return number(float(value)) if isinstance(value, float) else str(value)


def _read(path: str, *headers: tuple[Any, ...]) -> tuple[list[str], list[Row]]:
    """Return the header, which must be one of `headers`, and the rows with their line numbers."""
    with _opened(path) as file:
        reader = csv.reader(file, strict=True)
        try:
            every = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
        except (csv.Error, UnicodeDecodeError) as error:
            reason = "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else error
            raise ValueError(f"{path}: no CSV file: {reason}") from None
    rows = [(line, cells) for line, cells in every if any(cells)]
    header = rows[0][1] if rows else []
    if not any(_fits(header, wanted) for wanted in headers):
        wanted = " or ".join(
            ",".join("..." if name is ... else name for name in names) for names in headers
        )
        raise ValueError(f"{path}: the first line must be {wanted}")
    if len(set(header)) < len(header) or "" in header:
        raise ValueError(f"{path}: the columns must have distinct names")
    for line, cells in rows[1:]:
        if len(cells) != len(header):
            raise ValueError(f"{path}, line {line}: there must be {len(header)} values")
    if len(rows) < 2:
        raise ValueError(f"{path}: after the first line there must be a line of values")
    return header, rows[1:]


def _fits(header: list[str], wanted: tuple[Any, ...]) -> bool:
    if wanted[-1] is ...:
        return header[: len(wanted) - 1] == list(wanted[:-1])
    return header == list(wanted)


@contextmanager
def _opened(path: str) -> Iterator[TextIO]:
    if path == STANDARD_INPUT:
        yield sys.stdin
        return
    if not _named(path).exists():
        raise ValueError(f"{path}: there is no such file")
    with _named(path).open(encoding="utf-8-sig", newline="") as file:
        yield file


def _named(path: str) -> Path:
    return _check.path(path, "each FILE")


def _labels(path: str, rows: Sequence[Row]) -> tuple[str, ...]:
    labels: dict[str, int] = {}
    for line, cells in rows:
        if not cells[0]:
            raise ValueError(f"{path}, line {line}: the arm has no name")
        if cells[0] in labels:
            raise ValueError(
                f"{path}, line {line}: arm {cells[0]!r} is in line {labels[cells[0]]} already"
            )
        labels[cells[0]] = line
    return tuple(labels)


def _number(text: str, what: str, *, told: bool) -> float:
    """Return a finite number; `told` says whether an error may quote the text."""
    got = f", got {text!r}" if told else ""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{what} must be a number{got}") from None
    if not math.isfinite(value) or "_" in text:
        raise ValueError(f"{what} must be a finite number{got}")
    return value


def _count(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) <= 2**53:
        raise ValueError(f"{what} must be a whole number, at least 1")
    return int(text)
