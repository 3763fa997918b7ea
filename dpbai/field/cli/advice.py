"""What commands say of the model: before a run from the features, after it from its releases."""

from __future__ import annotations

import math
import re

import numpy as np

import dpbai
from dpbai._check import FloatArray
from dpbai.beyond.dp_design import usual_misfit
from dpbai.beyond.linearity import Fit, cannot_lead, fit
from dpbai.field.cli.arguments import DEFAULT
from dpbai.field.cli.sheets import listed, quoted
from dpbai.field.cli.tables import Arms, has_constant
from dpbai.field.session import Interval, Session
from dpbai.scaling import rank
from dpbai.schedule import pulls_max_det

LEVEL, _POWER = 0.05, 0.8
_MOST_ARMS, _MOST_WITHOUT_CONSTANT = 500, 100  # for which linear programs are quick
_NEEDLESS = "a combination of the columns before, and adds no information"
_LISTING = "|;,/+"
_NUMBERING = re.compile(r"(.*[ _-])?(id|index|nr|no|number|key|code)|unnamed: 0|", re.IGNORECASE)


def allowed(policy: dpbai.Policy) -> float:
    """Return the deviation from linear means that a policy allows for, inf if it ignores features.

    With a misfit, DPDesign ignores the features of two arms.
    """
    misfit = float(vars(policy).get("misfit", 0.0))
    pair = misfit > 0 and len(policy.features) == 2
    return math.inf if pair or isinstance(policy, dpbai.Baseline) else misfit


def deviation(policy: dpbai.Policy) -> float:
    """Return by how much means may be off: what a policy allows for, or what DPDesign would."""
    if 0 < (misfit := allowed(policy)) < math.inf:
        return misfit
    epsilon = vars(policy).get("epsilon", math.inf)
    return usual_misfit(len(policy.features), policy.budget, epsilon)


def model(policy: dpbai.Policy, name: str = "") -> str:
    """Return what a policy, called by this name, assumes of the means."""
    if reason := _assumes_nothing(policy):
        text = f"none. {reason}"
    elif misfit := allowed(policy):
        text = (
            f"means are linear in the features, up to deviations of about {misfit:g} of the reward "
            "range."
        )
    else:
        text = (
            "means are exactly linear in the features. If they are not, the answer may be wrong "
            f"however large the budget is: {DEFAULT} with --misfit allows for deviations."
        )
    return f"Model{f' of {name}' if name else ''}: {text}"


def _assumes_nothing(policy: dpbai.Policy) -> str:
    """Return why a policy assumes nothing of the means, or an empty text."""
    arms, dimension = len(policy.features), rank(policy.features)
    if isinstance(policy, dpbai.Baseline):
        return "Each arm is estimated from its own rewards."
    if dimension == arms:
        return "The features leave all means free, and spare no pulls."
    if isinstance(policy, dpbai.DPBAI | dpbai.DPBAIGauss) and not pulls_max_det(dimension, arms):
        return (
            f"With {dimension} features for {arms} arms, phase 1 pulls every arm, as baseline "
            "does: the features spare no pulls."
        )
    if (misfit := allowed(policy)) == math.inf or (misfit and not dimension):
        return "The features are ignored."
    return ""


def advise(policy: dpbai.Policy, arms: Arms) -> list[str]:
    """Return the model of a policy, and what to look at in a table of arms before a run."""
    found = [] if allowed(policy) == math.inf else notes(arms)
    return [model(policy), *(f"Note: {note}." for note in found)]


def notes(arms: Arms) -> list[str]:
    """Return what to look at before a run with these arms."""
    features, found = arms.features, []
    constant = has_constant(features)
    if not constant:
        found.append(
            "no combination of the features is constant, so the model gives an arm whose features "
            "are all 0 a mean of 0. For features such as prices or sizes this is wrong, and the "
            "best arm may never be found: --intercept adds a constant"
        )
    indicators = arms.indicators
    zero = np.flatnonzero(~features.any(axis=0)).tolist()
    if zero:
        way = "leave it out with --features" if features.any() else "use --one-hot"
        found.append(f"{_columns(arms, zero)} 0 for all arms, and adds no information: {way}")
    needless = [column for column in _needless(features) if column not in zero]
    if named := [column for column in needless if arms.sources[column] == arms.columns[column]]:
        found.append(f"{_columns(arms, named)} {_NEEDLESS}: leave it out with --features")
    for source, every in indicators.items():
        if words := [column for column in every if column in needless]:
            way = f": leave {quoted(source)} out with --features" if words == every else ""
            found.append(f"{_columns(arms, words)} {_NEEDLESS}{way or ', but does no harm'}")
    columns = range(len(arms.columns))
    if numbering := [column for column in columns if _is_numbering(arms, column)]:
        found.append(
            f"{_columns(arms, numbering)} used as a feature, and looks like a numbering of the "
            "arms: if it is one, leave it out with --features"
        )
    for source, every in indicators.items():
        names = [arms.columns[column].removeprefix(f"{source}=") for column in every]
        parts = {sign: {part.strip() for n in names for part in n.split(sign)} for sign in _LISTING}
        if sign := next((sign for sign in _LISTING if len(parts[sign]) < len(names)), ""):
            example = next(name for name in names if sign in name)
            found.append(
                f"column {quoted(source)} holds lists, such as {quoted(example)}, each of which "
                f"became a category: write a column of 0 and 1 for each of the {len(parts[sign])} "
                f"words in them instead (with pandas, table[{source!r}].str.get_dummies({sign!r}))"
            )
    if rank(features) == len(features) > 1 and arms.columns != arms.labels:  # not --one-hot
        found.append(
            f"the {len(features)} arms have {len(features)} independent features, which do not "
            "relate the means of different arms: they spare no pulls, and dp-bai is then baseline"
        )
    few = len(features) <= (_MOST_ARMS if constant else _MOST_WITHOUT_CONSTANT)
    out = cannot_lead(features) if few else ()
    if len(out) == len(features):
        found.append(
            "no arm can be ahead of all others if means are linear in the features and in the "
            "reward range: add a constant with --intercept"
        )
    elif out:
        labels = listed([quoted(arms.labels[arm]) for arm in out], 300)
        found.append(
            f"{len(out)} of the {len(features)} arms cannot be the best if means are linear in the "
            f"features: {labels}. If one of them may be the best, use --one-hot, or features in "
            "which it is no mixture of other arms"
        )
    return found


def fitted(session: Session) -> tuple[str, Fit | None]:
    """Return whether what a run released fits linear means, and how much that says."""
    policy, released = session.policy, [s for r in session.released for s in r.statistic]
    if any(r.pulls != p.pulls for r, p in zip(session.released, session.phases, strict=True)):
        said = "Whether the releases fit linear means is not computed, as rewards are missing."
        return said, None
    found = fit(session.phases, released, policy.features, misfit=deviation(policy))
    if found is None:
        return "So few arms were pulled that linear means fit any releases of this run.", None
    power = (
        f"If means are off by {found.misfit:g} of the reward range, this test finds it in "
        f"{100 * found.power:.0f} % of runs"
    )
    if found.chance >= LEVEL:
        doubt = ", so this result says little" if found.power < _POWER else ""
        return f"The releases fit means that are linear in the features. {power}{doubt}.", found
    way = f"The answer may be wrong: plan the next run by {DEFAULT} with --misfit, or --one-hot."
    if _assumes_nothing(policy):
        way = "This run does not rely on them."
    elif misfit := allowed(policy):
        way = (
            f"This run allows for deviations of about {misfit:g}; if larger ones are likely, give "
            "the next run a larger --misfit, or --one-hot."
        )
    return (
        "The releases do not fit means that are linear in the features: if means were, releases "
        f"would differ as much in {100 * max(found.chance, 5e-4):.2g} % of runs at most. {power}. "
        f"{way}",
        found,
    )


def mean_of_answer(session: Session, interval: Interval | None) -> list[str]:
    """Return what the mean of the recommended arm may be, and on which assumption."""
    if interval is None:
        return [
            "The run released sums or differences of means only, which determine no mean: the "
            "estimates show which arm is ahead, not how good it is."
        ]
    size, deviations = deviation(session.policy), interval.deviations
    off = session.interval(misfit=size)
    model = "assumes that means are exactly linear in the features"
    if deviations:
        model = "assumes deviations from linear means of this size"
    if not off.deviations:
        model = "uses the rewards of this arm only"
    moved = f", deviations by {deviations:.4g}" if deviations else ""
    found = [
        f"The mean of {quoted(session.recommendation)} lies between {interval.low:.4g} and "
        f"{interval.high:.4g}: such an interval is right in at least {interval.confidence:.0%} of "
        f"runs, whichever arm they recommend. It {model}. Noise moves the estimate by at most "
        f"{interval.noise:.4g}, sampling by {interval.sampling:.4g}{moved}. This says nothing "
        "about the probability that the arm is the best."
    ]
    if off.deviations and not deviations:
        found.append(
            f"For deviations from linear means of about {size:g} of the reward range, the "
            f"interval is {off.low:.4g} to {off.high:.4g}."
        )
    return found


def _needless(features: FloatArray) -> list[int]:
    """Return the columns that are combinations of those before."""
    every = range(features.shape[1])
    if rank(features) == len(every):
        return []
    ranks = [0, *(rank(features[:, : column + 1]) for column in every)]
    return [column for column in every if ranks[column + 1] == ranks[column]]


def _is_numbering(arms: Arms, column: int) -> bool:
    """Return whether a column counts the rows, or has distinct integers and the name of an id."""
    values = arms.features[:, column]
    if len(set(values.tolist())) < len(values) or (values % 1).any():
        return False
    counts = len(values) > 2 and bool((np.diff(values) == 1).all())
    return counts or bool(_NUMBERING.fullmatch(arms.columns[column]))


def _columns(arms: Arms, columns: list[int]) -> str:
    names = listed([quoted(arms.columns[column]) for column in columns], 40)
    return f"column {names} is" if len(columns) == 1 else f"each of the columns {names} is"
