"""What a table of features may have wrong, in words, with what to do about it."""

from __future__ import annotations

import math
import re

import numpy as np

import dpbai
from dpbai._check import FloatArray
from dpbai.beyond.dp_design import MISFIT
from dpbai.beyond.linearity import cannot_lead, fit
from dpbai.field.cli.sheets import listed, quoted
from dpbai.field.cli.tables import Arms, has_constant
from dpbai.field.session import Session
from dpbai.scaling import rank

_LEVEL, _TELLING = 0.05, 0.8
_MOST_ARMS = 500  # for which linear programs are quick
_NEEDLESS = "a combination of the columns before, and adds a dimension and no knowledge"
_LISTING = "|;,/+"
_NUMBERING = re.compile(r"(.*[ _-])?(id|index|nr|no|number|key|code)|unnamed: 0|", re.IGNORECASE)


def model(policy: dpbai.Policy) -> str:
    """Return what a policy takes the means to be, in a sentence."""
    if isinstance(policy, dpbai.Baseline):
        return "Model: nothing is known of how means are related."
    if rank(policy.features) == len(policy.features):
        return "Model: the features leave all means free, and spare no pulls."
    misfit = policy.misfit if isinstance(policy, dpbai.DPDesign) else 0.0
    if misfit == math.inf:
        return "Model: nothing is known of how means are related; features are ignored."
    if not misfit:
        return (
            "Model: means are linear in the features, exactly. If they are not, the answer can be "
            "wrong however many pulls there are: see --misfit of dp-design."
        )
    return (
        f"Model: means are linear in the features but for deviations of about {misfit:g} of the "
        "reward range."
    )


def fitted(session: Session) -> str:
    """Return whether what a finished run released fits linear means, and what that is worth."""
    policy, released = session.policy, [s for r in session.released for s in r.statistic]
    if any(r.pulls != p.pulls for r, p in zip(session.released, session.phases, strict=True)):
        return "Whether means are linear in the features is not looked at: rewards are missing."
    misfit = vars(policy).get("misfit", 0.0)
    found = fit(
        session.phases, released, policy.features, misfit=misfit if 0 < misfit <= 1 else MISFIT
    )
    if found is None:
        return "Whether means are linear in the features, the releases of this run cannot tell."
    power = (
        f"If means are off by {found.misfit:g} of the reward range, this is noticed in "
        f"{100 * found.power:.0f} % of runs"
    )
    if found.chance < _LEVEL:
        return (
            "The releases do not fit means that are linear in the features: chance alone makes "
            f"them differ as much in {100 * found.chance:.2g} % of runs. {power}. Trust the arms' "
            "own rewards more in the next run: a larger --misfit, or --one-hot."
        )
    doubt = ", so that this says little" if found.power < _TELLING else ""
    return f"The releases fit means that are linear in the features. {power}{doubt}."


def notes(arms: Arms) -> list[str]:
    """Return what to look at before a run with these arms."""
    features, found = arms.features, []
    if not has_constant(features):
        found.append(
            "no combination of the features is constant, so that an arm whose features are all 0 "
            "is taken to have a mean of 0. If the features are prices, sizes and the like, that "
            "is wrong, and the best arm may never be found: --intercept adds a constant"
        )
    columns = range(len(arms.columns))
    if needless := _needless(features):
        if named := [column for column in needless if arms.sources[column] == arms.columns[column]]:
            found.append(f"{_columns(arms, named)} {_NEEDLESS}: leave it out with --features")
        for source in dict.fromkeys(arms.sources[column] for column in needless):
            words = [column for column in needless if _is_indicator(arms, column, source)]
            every = [column for column in columns if _is_indicator(arms, column, source)]
            if words:
                way = (
                    f"leave {quoted(source)} out of --categorical"
                    if words == every
                    else f"in place of --categorical {quoted(source)}, write a column of 0 and 1 "
                    "for each of the other words"
                )
                found.append(f"{_columns(arms, words)} {_NEEDLESS}: {way}")
    if numbering := [column for column in columns if _is_numbering(arms, column)]:
        found.append(
            f"{_columns(arms, numbering)} taken for a feature, and looks like a numbering of the "
            "arms: if it is one, leave it out with --features"
        )
    found += _lists(arms)
    if rank(features) == len(features) > 1 and arms.columns != arms.labels:  # not --one-hot
        found.append(
            f"the {len(features)} arms have {len(features)} independent features, which say "
            "nothing of how means are related: they spare no pulls, and dp-bai is then baseline"
        )
    if len(features) <= _MOST_ARMS and (out := cannot_lead(features)):
        names = listed([quoted(arms.labels[arm]) for arm in out], 300)
        found.append(
            f"{len(out)} of the {len(features)} arms cannot be the best, whatever the means are, "
            f"as long as these are linear in the features: {names}. If one of them may be the best "
            "all the same, use --one-hot, or features in which it is no mixture of other arms"
        )
    return found


def _needless(features: FloatArray) -> list[int]:
    """Return the columns that are combinations of those before."""
    dimension = features.shape[1]
    if rank(features) == dimension:
        return []
    ranks = [rank(features[:, :count]) if count else 0 for count in range(dimension + 1)]
    return [column for column in range(dimension) if ranks[column + 1] == ranks[column]]


def _is_indicator(arms: Arms, column: int, source: str) -> bool:
    return arms.sources[column] == source and arms.columns[column] != source


def _lists(arms: Arms) -> list[str]:
    """Return what to do with columns of words that are lists of words."""
    found = []
    for source in dict.fromkeys(arms.sources):
        columns = [k for k in range(len(arms.columns)) if _is_indicator(arms, k, source)]
        words = [arms.columns[k].removeprefix(f"{source}=") for k in columns]
        for sign in _LISTING:
            parts = {part.strip() for word in words for part in word.split(sign)}
            if len(parts) < len(words):
                example = next(word for word in words if sign in word)
                found.append(
                    f"column {quoted(source)} holds lists, such as {quoted(example)}, each of "
                    f"which became a category: write a column of 0 and 1 for each of the "
                    f"{len(parts)} words in them instead (with pandas, "
                    f"table[{source!r}].str.get_dummies({sign!r}))"
                )
                break
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
