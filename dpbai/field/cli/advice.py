"""What commands say about linear means: before a run from the features, after it from releases."""

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
from dpbai.field.session.interval import comparable
from dpbai.scaling import rank
from dpbai.schedule import pulls_max_det

LEVEL, _POWER = 0.05, 0.8
_MOST_ARMS, _MOST_WITHOUT_CONSTANT = 500, 100  # for which linear programs are fast
_REDUNDANT = "a combination of the columns before it, and adds no information"
_LEAVE_OUT = "leave it out by naming the others with --features"
_SEPARATORS = "|;,/+"
_NUMBERING = re.compile(r"(.*[ _-])?(id|index|nr|no|number|key|code)|unnamed: 0|", re.IGNORECASE)


def allowed(policy: dpbai.Policy) -> float:
    """Return the deviation from linear means that a policy allows for, inf if it ignores features.

    DPDesign with a misfit ignores the features if there are two arms.
    """
    misfit = float(vars(policy).get("misfit", 0.0))
    pair = misfit > 0 and len(policy.features) == 2
    return math.inf if pair or isinstance(policy, dpbai.Baseline) else misfit


def deviation(policy: dpbai.Policy) -> float:
    """Return a deviation from linear means: what a policy allows for, or what DPDesign would."""
    if 0 < (misfit := allowed(policy)) < math.inf:
        return misfit
    epsilon = vars(policy).get("epsilon", math.inf)
    return usual_misfit(len(policy.features), policy.budget, epsilon)


def model(policy: dpbai.Policy, name: str = "") -> str:
    """Return what a policy, called by this name, assumes about the means."""
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
            f"however large the budget is: {DEFAULT} with a positive --misfit allows for "
            "deviations."
        )
    return f"Model{f' of {name}' if name else ''}: {text}"


def _assumes_nothing(policy: dpbai.Policy) -> str:
    """Return why a policy assumes nothing about the means, or an empty text."""
    arms, dimension = len(policy.features), rank(policy.features)
    if isinstance(policy, dpbai.Baseline):
        return "Each arm is estimated from its own rewards."
    if dimension == arms:
        return "The features allow all means, and save no pulls."
    if isinstance(policy, dpbai.DPBAI | dpbai.DPBAIGauss) and not pulls_max_det(dimension, arms):
        return (
            f"With {dimension} features for {arms} arms, phase 1 pulls every arm, as baseline "
            "does: the features save no pulls."
        )
    if (misfit := allowed(policy)) == math.inf or (misfit and not dimension):
        return "The features are ignored."
    return ""


def advise(policy: dpbai.Policy, arms: Arms) -> list[str]:
    """Return the model of a policy, and notes on the table of arms."""
    found = [] if allowed(policy) == math.inf else notes(arms)
    return [model(policy), *(f"Note: {note}." for note in found)]


def notes(arms: Arms) -> list[str]:
    """Return what to check in a table of arms before a run."""
    features, found = arms.features, []
    constant = has_constant(features)
    if not constant:
        found.append(
            "no combination of the features is constant, so an arm whose features are all 0 is "
            "assumed to have mean 0. For features such as prices or sizes this is wrong, and the "
            "best arm may never be found: add a constant with --intercept"
        )
    indicators = arms.indicators
    zero = np.flatnonzero(~features.any(axis=0)).tolist()
    if zero:
        remedy = _LEAVE_OUT if features.any() else "use --one-hot"
        found.append(f"{_columns(arms, zero)} 0 for all arms, and adds no information: {remedy}")
    redundant = [column for column in _redundant(features) if column not in zero]
    if named := [column for column in redundant if arms.sources[column] == arms.columns[column]]:
        found.append(f"{_columns(arms, named)} {_REDUNDANT}: {_LEAVE_OUT}")
    for source, every in indicators.items():
        if words := [column for column in every if column in redundant]:
            remedy = ", but does no harm"
            if words == every:
                remedy = f": leave {quoted(source)} out by naming the others with --features"
            found.append(f"{_columns(arms, words)} {_REDUNDANT}{remedy}")
    columns = range(len(arms.columns))
    if numbering := [column for column in columns if _is_numbering(arms, column)]:
        found.append(
            f"{_columns(arms, numbering)} used as a feature, and looks like a numbering of the "
            f"arms: if it is one, {_LEAVE_OUT}"
        )
    for source, every in indicators.items():
        names = [arms.columns[column].removeprefix(f"{source}=") for column in every]
        parts = {
            sign: {part.strip() for n in names for part in n.split(sign)} for sign in _SEPARATORS
        }
        if sign := next((sign for sign in _SEPARATORS if len(parts[sign]) < len(names)), ""):
            example = next(name for name in names if sign in name)
            found.append(
                f"column {quoted(source)} contains lists, such as {quoted(example)}, and each list "
                "became a category: replace it by a column of 0 and 1 for each of the "
                f"{len(parts[sign])} words in the lists (with pandas, "
                f"table[{source!r}].str.get_dummies({sign!r}))"
            )
    if rank(features) == len(features) > 1 and arms.columns != arms.labels:  # not --one-hot
        found.append(
            f"the {len(features)} arms have {len(features)} independent features, which do not "
            "relate the means of different arms: they save no pulls, and dp-bai equals baseline"
        )
    few = len(features) <= (_MOST_ARMS if constant else _MOST_WITHOUT_CONSTANT)
    out = cannot_lead(features) if few else ()
    if len(out) == len(features):
        found.append(
            "no arm can be ahead of all others if means are linear in the features and lie in the "
            "reward range: add a constant with --intercept"
        )
    elif out:
        labels = listed([quoted(arms.labels[arm]) for arm in out], 300)
        found.append(
            f"{len(out)} of the {len(features)} arms cannot be the best if means are linear in the "
            f"features: {labels}. If one of them may be the best, use --one-hot, or features in "
            "which it is not a mixture of other arms"
        )
    return found


def fitted(session: Session) -> tuple[str, Fit | None]:
    """Return whether the releases of a run fit linear means, and how much that says."""
    policy, released = session.policy, [s for r in session.released for s in r.statistic]
    if any(r.pulls != p.pulls for r, p in zip(session.released, session.phases, strict=True)):
        text = "Whether the releases fit linear means is not tested, because rewards are missing."
        return text, None
    found = fit(session.phases, released, policy.features, misfit=deviation(policy))
    if found is None:
        return (
            "This run pulled too few arms to test whether means are linear in the features.",
            None,
        )
    power = (
        f"If means deviate by {found.misfit:g} of the reward range, this test detects it in "
        f"{100 * found.power:.0f} % of runs"
    )
    if found.chance >= LEVEL:
        doubt = ", so this result says little" if found.power < _POWER else ""
        return f"The releases fit means that are linear in the features. {power}{doubt}.", found
    remedy = (
        f"The answer may be wrong: for the next run, use {DEFAULT} with a positive --misfit, or "
        "--one-hot."
    )
    if _assumes_nothing(policy):
        remedy = "This run does not rely on linear means."
    elif misfit := allowed(policy):
        remedy = (
            f"This run allows for deviations of about {misfit:g}. If larger ones are likely, give "
            "the next run a larger --misfit, or --one-hot."
        )
    return (
        "The releases do not fit means that are linear in the features: with such means, at most "
        f"{100 * max(found.chance, 5e-4):.2g} % of runs would deviate this much. {power}. {remedy}",
        found,
    )


def mean_of_answer(session: Session, interval: Interval | None) -> list[str]:
    """Return what the mean of the recommended arm may be, and under which assumption."""
    if interval is None:
        text = (
            "This run released one number, which determines differences of means but no mean: "
            "compare the estimates with each other only."
        )
        blank = len(comparable(session)) < len(session.estimates)
        return [text + " It says nothing about the arms without an estimate." * blank]
    size, deviations = deviation(session.policy), interval.deviations
    off = session.interval(misfit=size)
    model = "assumes that means are exactly linear in the features"
    if deviations:
        model = f"allows for deviations from linear means of about {size:g} of the reward range"
    if not off.deviations:
        model = "uses the rewards of this arm only"
    moved = f", deviations by {deviations:.4g}" if deviations else ""
    found = [
        f"The mean of {quoted(session.recommendation)} lies between {interval.low:.4g} and "
        f"{interval.high:.4g}: in at least {interval.confidence:.0%} of runs, such an interval "
        f"contains the mean of the recommended arm. It {model}. Noise moves the estimate by at "
        f"most {interval.noise:.4g}, sampling by {interval.sampling:.4g}{moved}. This says nothing "
        "about the probability that the arm is the best."
    ]
    if off.deviations and not deviations:
        found.append(
            f"If means deviate from linear ones by about {size:g} of the reward range, the "
            f"interval is {off.low:.4g} to {off.high:.4g}."
        )
    return found


def _redundant(features: FloatArray) -> list[int]:
    """Return the columns that are linear combinations of those before."""
    every = range(features.shape[1])
    if rank(features) == len(every):
        return []
    ranks = [0, *(rank(features[:, : column + 1]) for column in every)]
    return [column for column in every if ranks[column + 1] == ranks[column]]


def _is_numbering(arms: Arms, column: int) -> bool:
    """Return whether a column counts the rows, or has distinct integers and a name like id."""
    values = arms.features[:, column]
    if len(set(values.tolist())) < len(values) or (values % 1).any():
        return False
    counts = len(values) > 2 and bool((np.diff(values) == 1).all())
    return counts or bool(_NUMBERING.fullmatch(arms.columns[column]))


def _columns(arms: Arms, columns: list[int]) -> str:
    names = listed([quoted(arms.columns[column]) for column in columns], 40)
    return f"column {names} is" if len(columns) == 1 else f"each of the columns {names} is"
