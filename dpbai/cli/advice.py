"""What a table of features may have wrong, in words, with what to do about it."""

from __future__ import annotations

import re

import numpy as np

from dpbai.cli.sheets import listed, quoted
from dpbai.cli.tables import Arms, has_constant
from dpbai.designs.scaling import rank

_NUMBERING = re.compile(r"(.*[ _-])?(id|index|nr|no|number|key|code)|unnamed: 0|", re.IGNORECASE)


def notes(arms: Arms, pulled: int) -> list[str]:
    """Return what to look at before a run in which phase 1 pulls so many of the arms."""
    features, found = arms.features, []
    if not has_constant(features):
        found.append(
            "no combination of the features is constant, so that an arm whose features are all 0 "
            "is taken to have a mean of 0. If the features are prices, sizes and the like, that "
            "is wrong, and the best arm may never be found: --intercept adds a constant"
        )
    columns = range(features.shape[1])
    ranks = [rank(features[:, :count]) if count else 0 for count in range(len(columns) + 1)]
    if needless := [column for column in columns if ranks[column + 1] == ranks[column]]:
        found.append(
            f"{_columns(arms, needless)} a combination of the columns before, and adds a dimension "
            "and no knowledge: leave it out with --features"
        )
    if numbering := [column for column in columns if _is_numbering(arms, column)]:
        found.append(
            f"{_columns(arms, numbering)} taken for a feature, and looks like a numbering of the "
            "arms: if it is one, leave it out with --features"
        )
    if pulled == len(features) > 2:
        found.append(
            f"phase 1 pulls each of the {pulled} arms: with {len(columns)} features for "
            f"{pulled} arms, the features spare no pulls"
        )
    return found


def _is_numbering(arms: Arms, column: int) -> bool:
    """Return whether whole numbers, all different, count the rows or are called an id."""
    values = arms.features[:, column]
    if len(set(values.tolist())) < len(values) or (values % 1).any():
        return False
    counts = len(values) > 2 and bool((np.diff(values) == 1).all())
    return counts or bool(_NUMBERING.fullmatch(arms.columns[column]))


def _columns(arms: Arms, columns: list[int]) -> str:
    names = listed([quoted(arms.columns[column]) for column in columns], 40)
    return f"column {names} is" if len(columns) == 1 else f"each of the columns {names} is"
