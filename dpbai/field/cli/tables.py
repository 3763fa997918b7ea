"""The tables that commands read, and what they print."""

from __future__ import annotations

import argparse
import csv
import json
import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TextIO

import numpy as np

from dpbai._check import FloatArray
from dpbai.field.cli.arguments import BASELINE
from dpbai.field.cli.sheets import Sheet, nearest, quoted
from dpbai.field.session.records import Label
from dpbai.field.session.rewards import Range, decimal, exact_sum, stated_sum
from dpbai.scaling import rank

CONSTANT = "constant"
_MOST_ROWS = 30
_COLUMNS = 80


class Arms(NamedTuple):
    """A table of K arms, with d features.

    Attributes
    ----------
    labels : tuple of str
        Names of the arms.
    features : ndarray of shape (K, d)
    columns : tuple of str
        Names of the features.
    sources : tuple of str
        The column of the table that each feature comes from; an indicator has another name.
    """

    labels: tuple[str, ...]
    features: FloatArray
    columns: tuple[str, ...]
    sources: tuple[str, ...]


def read_arms(given: argparse.Namespace) -> Arms:
    """Return the arms of the table that `arguments.arms` asks for."""
    sheet = Sheet.read(given.arms)
    arm = sheet.column(given.arm_column, "--arm-column")
    labels, name = sheet.labels(arm), sheet.header[arm]
    chosen = [sheet.column(name, "--features") for name in given.features]
    categories = [sheet.column(name, "--categorical") for name in given.categorical]
    every = range(len(sheet.header))
    places = list(dict.fromkeys([*chosen, *categories]) if chosen else every)
    # Baseline looks at no feature.
    named_only = places == [arm] and set(_policies(given)) == {BASELINE}
    if given.one_hot and (chosen or categories):
        raise ValueError(
            "--one-hot gives each arm a feature of its own, and cannot be combined with --features "
            "and --categorical"
        )
    if given.one_hot or named_only:
        return Arms(labels, np.eye(len(labels)), labels, (name,) * len(labels))
    found = [
        (column, sheet.header[place], values)
        for place in places
        if place != arm or place in categories
        for column, values in _features(sheet, place, arm, labels, categories)
    ]
    if not found:
        raise ValueError(
            f"{sheet.path}: there must be features beside column {quoted(name)}; with --one-hot "
            "each arm has its own feature"
        )
    features = np.array([values for *_, values in found]).T
    if given.intercept and not has_constant(features):
        found.insert(0, (CONSTANT, "", []))
        features = np.c_[np.ones(len(features)), features]
    columns, sources, _ = zip(*found, strict=True)
    if twice := [column for column, count in Counter(columns).items() if count > 1]:
        raise ValueError(
            f"{sheet.path}: two features would have the name {quoted(twice[0])}, one of them made "
            "by --categorical or --intercept: rename the column of this name, or choose other "
            "columns with --features"
        )
    return Arms(labels, features, columns, sources)


def _policies(given: argparse.Namespace) -> list[str]:
    """Return the names of the policies that a command is about."""
    return list(vars(given).get("policies") or [given.policy])


def _features(
    sheet: Sheet, place: int, arm: int, labels: Sequence[str], categories: Sequence[int]
) -> Iterator[tuple[str, list[float]]]:
    """Yield the name and the values of each feature that a column of a table gives."""
    name = sheet.header[place]
    if place in categories:
        # The indicators of a second column would add up to those of the first.
        for word in sheet.words(place)[place != categories[0] :]:
            yield f"{name}={word}", [float(cells[place] == word) for _, cells in sheet.rows]
        return
    words = [*map(quoted, sheet.columns_of_words(set(categories) | {arm}))]
    way = (
        f" (--categorical {' '.join(words or [quoted(name)])} makes indicators of columns of "
        "words, --features chooses columns)"
    )
    column = name or "the column without a name"
    yield (
        name,
        [
            sheet.number(line, cells[place], f"{column} of arm {label!r}", way)
            for (line, cells), label in zip(sheet.rows, labels, strict=True)
        ],
    )


def has_constant(features: FloatArray) -> bool:
    """Return whether some combination of the features is the same for all arms, and not 0."""
    return rank(np.c_[features, np.ones(len(features))]) == rank(features)


def read_means(given: argparse.Namespace, labels: Sequence[str]) -> list[float]:
    """Return the means, in the order of `labels`, of a file with columns arm and mean."""
    sheet = Sheet.read(given.means)
    # What `simulate` writes has a column arm, whatever the table of arms calls it.
    arm = sheet.column("arm" if "arm" in sheet.header else given.arm_column, "--arm-column")
    rows = dict(zip(sheet.labels(arm), sheet.rows, strict=True))
    for label, (line, _) in rows.items():
        if label not in labels:
            raise sheet.wrong(line, f"{label!r} is none of the arms{nearest(label, labels)}")
    mean, means = sheet.column("mean"), []
    for label in labels:
        if label not in rows:
            raise ValueError(f"{sheet.path}: it must hold each arm once, and {label!r} is missing")
        line, cells = rows[label]
        means.append(sheet.number(line, cells[mean], f"mean of arm {label!r}"))
    return means


def read_rewards(
    given: argparse.Namespace, names: Mapping[str, Label], bounds: Range
) -> dict[Label, tuple[Fraction, int]]:
    """Return sums and counts by arm, of a file with columns arm, reward or arm, total, count."""
    sheet = Sheet.read(given.rewards, private=True)
    summed = not given.reward_column and {"total", "count"} <= {n.casefold() for n in sheet.header}
    if summed and "reward" in sheet.header:
        raise ValueError(
            f"{sheet.path}: there are columns reward, total and count: choose the column of "
            "rewards with --reward-column"
        )
    arm = sheet.column(given.arm_column, "--arm-column")
    column = "total" if summed else given.reward_column or "reward"
    place = sheet.column(column, "--reward-column")
    counted = sheet.column("count") if summed else None
    values: dict[Label, list[float]] = {}
    sums: dict[Label, tuple[Fraction, int]] = {}
    for line, cells in sheet.rows:
        # Not quoted: if the columns are interchanged, this is a reward.
        if cells[arm] not in names:
            raise sheet.wrong(line, f"this is none of the arms{nearest(cells[arm], names)}")
        value, label = sheet.number(line, cells[place], column), names[cells[arm]]
        if counted is None:
            if not bounds.low <= value <= bounds.high:
                raise sheet.wrong(line, f"{column} must lie in {bounds}")
            values.setdefault(label, []).append(value)
            continue
        digits = cells[counted]
        count = int(digits) if digits.isascii() and digits.isdigit() else 0
        if not 0 < count <= 2**53:
            raise sheet.wrong(line, "count must be a whole number, at least 1")
        try:
            stated_sum((decimal(value), count), bounds)
        except ValueError:
            rule = f"{column} must lie in {bounds} times count"
            raise sheet.wrong(line, rule) from None
        total, number = sums.get(label, (Fraction(), 0))
        sums[label] = total + decimal(value), number + count
    return sums or {
        label: (exact_sum(np.array(found)), len(found)) for label, found in values.items()
    }


class Table(NamedTuple):
    """A table to show and to write; None and NaN are blank in it."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    draw: Callable[[], Any] | None = None  # a figure of it


@dataclass(frozen=True)
class Answer:
    """What a command answers: paragraphs above and below a table.

    Printed as JSON it is the `facts`, and the rows of the table by the name `rows`. A table that is
    not `shown` is for --output and --figure only.
    """

    table: Table | None = None
    above: Sequence[str] = ()
    below: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    rows: str = "arms"
    shown: bool = True

    def show(self, *, as_json: bool) -> None:
        """Print the answer."""
        if as_json and self.shown:
            show_json({**self.facts, self.rows: records(self.table) if self.table else []})
        elif not as_json:
            for text in self.above:
                say(text)
            if self.table and self.shown:
                show(self.table)
            for text in self.below:
                say(text)


def write(table: Table, opened: TextIO) -> None:
    """Write a table as CSV, each number in full."""
    rows = [table.columns, *([_cell(value, repr) for value in row] for row in table.rows)]
    # Before 3.13, Python does not quote a cell with a carriage return.
    unusual = any("\r" in cell for row in rows for cell in row)
    quoting: Literal[0, 1] = csv.QUOTE_ALL if unusual else csv.QUOTE_MINIMAL
    csv.writer(opened, lineterminator="\n", quoting=quoting).writerows(rows)


def show(table: Table) -> None:
    """Print the first rows of a table, aligned, with four digits of each number."""
    lines = [table.columns, *(list(map(_shown, row)) for row in table.rows[:_MOST_ROWS])]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print(" ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    if len(table.rows) > _MOST_ROWS:
        print(f"... and {len(table.rows) - _MOST_ROWS} more rows: --output FILE writes them all")


def say(text: str) -> None:
    """Print a paragraph in 80 columns; text of several lines as it is."""
    hang = "  " if text.startswith("Note: ") else ""
    wrapped = textwrap.fill(text, _COLUMNS, subsequent_indent=hang, break_on_hyphens=False)
    print(text if "\n" in text else wrapped)


def records(table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table for JSON."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def show_json(value: Any) -> None:
    """Print one line of JSON, at once; infinity is "inf", NaN is null."""
    print(json.dumps(_finite(value), allow_nan=False), flush=True)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _cell(value: object, number: Callable[[float], str]) -> str:
    """Return the text of a cell, in which `number` formats floating-point numbers."""
    if value is None or value != value:
        return ""
    return number(float(value)) if isinstance(value, float) else str(value)


def _shown(value: object) -> str:
    return quoted(value) if isinstance(value, str) else _cell(value, "{:.4g}".format)
