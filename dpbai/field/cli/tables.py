"""The tables of arms, means and rewards that commands read."""

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
    """A table of K arms, with d features."""

    labels: tuple[str, ...]
    features: FloatArray  # of shape (K, d)
    columns: tuple[str, ...]  # the names of the features
    sources: tuple[str, ...]  # their columns in the table; indicators have other names

    @property
    def indicators(self) -> dict[str, list[int]]:
        """The features that come from each column of words, by the name of the column."""
        found: dict[str, list[int]] = {}
        for place, (column, source) in enumerate(zip(self.columns, self.sources, strict=True)):
            if column != source:
                found.setdefault(source, []).append(place)
        return found


def read_arms(given: argparse.Namespace) -> Arms:
    """Return the arms that the options `arguments.ARMS` describe."""
    sheet = Sheet.read(given.arms)
    arm = sheet.named(given.arm_column, "--arm-column")
    labels = sheet.labels(arm)
    chosen = [sheet.named(name, "--features") for name in given.features]
    categories = [sheet.named(name, "--categorical") for name in given.categorical]
    names = list(dict.fromkeys([*chosen, *categories] if chosen else sheet.columns))
    if given.one_hot and (chosen or categories):
        raise ValueError(
            "--one-hot gives each arm a feature of its own, and cannot be combined with --features "
            "or --categorical"
        )
    # Baseline uses no features.
    if given.one_hot or (names == [arm] and {*given.policies} == {BASELINE}):
        return Arms(labels, np.eye(len(labels)), labels, (arm,) * len(labels))
    found = [
        (column, name, values)
        for name in names
        if name != arm or name in categories
        for column, values in _features(sheet, name, arm, categories)
    ]
    if not found:
        raise ValueError(
            f"{sheet.path}: there must be features besides column {quoted(arm)}; without any, use "
            "--one-hot, which gives each arm its own feature"
        )
    features = np.array([values for *_, values in found]).T
    if given.intercept and not has_constant(features):
        found.insert(0, (CONSTANT, "", []))
        features = np.c_[np.ones(len(features)), features]
    columns, sources, _ = zip(*found, strict=True)
    if twice := [column for column, count in Counter(columns).items() if count > 1]:
        raise ValueError(
            f"{sheet.path}: two features would have the name {quoted(twice[0])}, one of them from "
            "--categorical or --intercept: rename the column of this name, or choose other columns "
            "with --features"
        )
    return Arms(labels, features, columns, sources)


def _features(
    sheet: Sheet, name: str, arm: str, categories: Sequence[str]
) -> Iterator[tuple[str, list[float]]]:
    """Yield the name and the values of each feature that comes from a column."""
    if name in categories:
        # All indicators of a second column would have the same sum as those of the first.
        for word in sheet.words(name)[name != categories[0] :]:
            yield f"{name}={word}", [float(cell == word) for cell in sheet.columns[name]]
        return
    words = [quoted(column) for column in sheet.of_words if column not in {*categories, arm}]
    remedy = (
        f": use --categorical {' '.join(words or [quoted(name)])} for columns of words, or choose "
        "columns with --features"
    )
    shown = name or "the column without a name"
    rows = zip(sheet.cells(name), sheet.columns[arm], strict=True)
    yield name, [sheet.number(*cell, f"{shown} of arm {label!r}", remedy) for cell, label in rows]


def has_constant(features: FloatArray) -> bool:
    """Return whether some linear combination of the features is 1 for all arms."""
    return rank(np.c_[features, np.ones(len(features))]) == rank(features)


def read_means(given: argparse.Namespace, labels: Sequence[str]) -> list[float]:
    """Return the means, in the order of `labels`, of a file with columns arm and mean."""
    sheet = Sheet.read(given.means)
    # The file that `simulate` writes has a column arm, whatever its name in the table of arms.
    arm = sheet.named("arm" if "arm" in sheet.columns else given.arm_column, "--arm-column")
    means = dict(zip(sheet.labels(arm), sheet.cells(sheet.named("mean")), strict=True))
    for label, (line, _) in means.items():
        if label not in labels:
            raise sheet.wrong(line, f"{label!r} is not one of the arms{nearest(label, labels)}")
    if missing := [label for label in labels if label not in means]:
        raise ValueError(f"{sheet.path}: each arm must have a line, but {missing[0]!r} has none")
    return [sheet.number(*means[label], f"mean of arm {label!r}") for label in labels]


def read_rewards(
    given: argparse.Namespace, names: Mapping[str, Label], bounds: Range
) -> dict[Label, tuple[Fraction, int]]:
    """Return sums and counts by arm, of a file with columns arm, reward or arm, total, count."""
    sheet = Sheet.read(given.rewards, private=True)
    summed = not given.reward_column and {"total", "count"} <= {*map(str.casefold, sheet.columns)}
    if summed and "reward" in sheet.columns:
        raise ValueError(
            f"{sheet.path}: there are columns reward, total and count: choose the column of "
            "rewards with --reward-column"
        )
    arms = sheet.columns[sheet.named(given.arm_column, "--arm-column")]
    column = "total" if summed else given.reward_column or "reward"
    cells = sheet.cells(sheet.named(column, "--reward-column"))
    counted = sheet.columns[sheet.named("count")] if summed else ["1"] * len(arms)
    values: dict[Label, list[float]] = {}
    counts: Counter[Label] = Counter()
    for arm, (line, cell), digits in zip(arms, cells, counted, strict=True):
        # Not quoted, because it is a reward if the columns are interchanged.
        if arm not in names:
            raise sheet.wrong(line, f"this is not one of the arms{nearest(arm, names)}")
        value, label = sheet.number(line, cell, column), names[arm]
        if not summed and not bounds.low <= value <= bounds.high:
            raise sheet.wrong(line, f"{column} must lie in {bounds}")
        count = int(digits) if digits.isascii() and digits.isdigit() else 0
        if not 0 < count <= 2**53:
            raise sheet.wrong(line, "count must be a whole number, at least 1")
        if summed:
            try:
                stated_sum((decimal(value), count), bounds)
            except ValueError:
                rule = f"{column} must lie in {bounds} times count"
                raise sheet.wrong(line, rule) from None
        values.setdefault(label, []).append(value)
        counts[label] += count
    return {
        label: (
            sum(map(decimal, found), Fraction()) if summed else exact_sum(np.array(found)),
            counts[label],
        )
        for label, found in values.items()
    }
