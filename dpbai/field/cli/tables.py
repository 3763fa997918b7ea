"""The tables that commands read, and what they print."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpbai._check import FloatArray
from dpbai.field.cli.arguments import BASELINE
from dpbai.field.cli.sheets import Sheet, nearest, quoted
from dpbai.field.session.records import Label
from dpbai.field.session.rewards import Range, decimal, exact_sum, stated_sum
from dpbai.scaling import rank

CONSTANT = "constant"


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

    @property
    def indicators(self) -> dict[str, list[int]]:
        """The features that a column of words gives, by the name of that column."""
        found: dict[str, list[int]] = {}
        for place, (column, source) in enumerate(zip(self.columns, self.sources, strict=True)):
            if column != source:
                found.setdefault(source, []).append(place)
        return found


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
    policies = {given.policy} if "policy" in given else {*given.policies}
    named_only = places == [arm] and policies == {BASELINE}
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


def _features(
    sheet: Sheet, place: int, arm: int, labels: Sequence[str], categories: Sequence[int]
) -> Iterator[tuple[str, list[float]]]:
    """Yield the name and the values of each feature that a column of a table gives."""
    name, cells = sheet.header[place], sheet.cells(place)
    if place in categories:
        # The indicators of a second column would add up to those of the first.
        for word in sheet.words(place)[place != categories[0] :]:
            yield f"{name}={word}", [float(cell == word) for _, cell in cells]
        return
    words = [*map(quoted, sheet.columns_of_words({*categories, arm}))] or [quoted(name)]
    way = (
        f" (--categorical {' '.join(words)} makes indicators of columns of words, --features "
        "chooses columns)"
    )
    whats = (f"{name or 'the column without a name'} of arm {label!r}" for label in labels)
    numbers = zip(cells, whats, strict=True)
    yield name, [sheet.number(line, cell, what, way) for (line, cell), what in numbers]


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
    counts: Counter[Label] = Counter()
    for line, cells in sheet.rows:
        # Not quoted: if the columns are interchanged, this is a reward.
        if cells[arm] not in names:
            raise sheet.wrong(line, f"this is none of the arms{nearest(cells[arm], names)}")
        value, label, count = sheet.number(line, cells[place], column), names[cells[arm]], 1
        if counted is None:
            if not bounds.low <= value <= bounds.high:
                raise sheet.wrong(line, f"{column} must lie in {bounds}")
        else:
            digits = cells[counted]
            count = int(digits) if digits.isascii() and digits.isdigit() else 0
            if not 0 < count <= 2**53:
                raise sheet.wrong(line, "count must be a whole number, at least 1")
            try:
                stated_sum((decimal(value), count), bounds)
            except ValueError:
                rule = f"{column} must lie in {bounds} times count"
                raise sheet.wrong(line, rule) from None
        values.setdefault(label, []).append(value)
        counts[label] += count
    return {
        label: (
            exact_sum(np.array(found)) if counted is None else sum(map(decimal, found), Fraction()),
            counts[label],
        )
        for label, found in values.items()
    }
