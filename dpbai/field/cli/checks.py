"""The commands holdout and misfit, which check whether means are linear in the features."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Set
from dataclasses import replace

import numpy as np

import dpbai
from dpbai._check import FloatArray
from dpbai.beyond import linearity
from dpbai.beyond.linearity import Holdout
from dpbai.field.cli.advice import LEVEL, fitted, model
from dpbai.field.cli.answers import Answer
from dpbai.field.cli.run import arm_named, check_named_once, missing, resumed
from dpbai.field.cli.sheets import listed, quoted
from dpbai.field.session import Session, SessionError
from dpbai.field.session.interval import unbiased
from dpbai.phase import Phase

_ROUNDING = 1e-6

Compared = tuple[str, Phase, tuple[float, ...], int | None]
"""What is compared with phase 1: a name, plan and release, and the `candidates` of `limits`."""


def holdout(given: argparse.Namespace) -> Answer:
    """Start a holdout of a run, in a session file of its own."""
    run, first, estimated = _checkable(given.run)
    names = sorted({arm_named(run, name) for name in given.held_out}, key=run.labels.index)
    if len(names) < len(given.held_out):
        raise ValueError("name each arm to hold out once")
    arms = [run.labels.index(name) for name in names]
    if own := [run.labels[arm] for arm in arms if arm not in estimated]:
        raise ValueError(
            f"phase 1 does not estimate the mean of {listed(map(quoted, own))} from the features, "
            f"so a holdout of it checks nothing: {_others(run, first, estimated)}"
        )
    epsilon = given.epsilon or vars(run.policy).get("epsilon", math.inf)
    plan = linearity.holdout(arms, pulls=given.pulls, epsilon=epsilon)
    limits = run.reward_range.width * linearity.limits(first, plan, level=LEVEL)
    policy = Holdout(run.policy.features[arms], budget=plan.cost, epsilon=epsilon)
    session = Session(
        policy,
        noise=run.noise,
        path=given.session,
        labels=names,
        reward_range=run.reward_range,
        population=run.population,
    )
    return Answer(
        list(zip(names, plan.pulls, limits.tolist(), strict=True)),
        above=[f"{given.session} is ready."],
        below=[
            "limit: if means are linear in the features, the mean of the new rewards and the "
            "estimate of phase 1 differ by at most this much, with probability "
            f"{1 - LEVEL:.0%}. A deviation of twice the limit is detected with the same "
            "probability.",
            *(f"Note: {remark}." for remark in dpbai.certificate(policy).remarks),
            missing(session),
            f"When both are finished: dpbai misfit {given.run} {given.session}",
        ],
    )


def misfit(given: argparse.Namespace) -> Answer:
    """Compare what a run released in phase 1 with later phases and with holdouts."""
    run, first, estimated = _checkable(given.session)
    if not run.released:
        raise SessionError("no phase of the run has been released yet: see `dpbai next`")
    released, width = run.released[0], run.reward_range.width
    rows, found, notes = [], set(), list[str]()
    holdouts = list(_holdouts(run, given.holdouts))
    compared = [*_phases(run, notes), *holdouts] if estimated else []
    for name, plan, statistic, candidates in compared:
        level = LEVEL / len(compared)
        again = linearity.misfit(
            first, released.statistic, plan, statistic, level=level, candidates=candidates
        )
        differences, limits = (width * again.differences).tolist(), (width * again.limits).tolist()
        for arm, off, limit in zip(again.arms, differences, limits, strict=True):
            if arm in estimated:
                label, estimate = run.labels[arm], released.estimates[arm]
                rows.append((label, name, estimate, estimate + off, off, limit))
                found |= {str(label)} if abs(off) > limit else set()
    proved = all(candidates is None for *_, candidates in compared)
    proof = "" if proved else " (no proof covers later phases, whose pulls depend on phase 1)"
    verdict = (
        "No difference exceeds its limit: these comparisons do not contradict linear means. They "
        "may miss deviations of less than twice the limit."
    )
    if found:
        verdict = (
            "The means are not linear in the features: the difference exceeds its limit for "
            f"{listed(map(quoted, sorted(found)))}. With linear means, the probability of this "
            f"would be at most {LEVEL:.0%}{proof}. Give the next run other features, a larger "
            "--misfit, or --one-hot."
        )
    elif not rows:
        verdict = (
            "There is nothing to compare with what phase 1 estimated from the features: "
            f"{_others(run, first, estimated)}."
        )
    fit_text, fit = fitted(run)
    return Answer(
        rows or None,
        below=[verdict, *notes, model(run.policy), fit_text],
        facts={"found": sorted(found), "fit": fit and vars(fit)},
    )


def _checkable(path: str) -> tuple[Session, Phase, Set[int]]:
    """Return a run, its plan of phase 1, and the arms that phase 1 estimates from the features.

    ValueError if it is a holdout, SessionError if rewards of phase 1 are missing.
    """
    run = resumed(path)
    if isinstance(run.policy, Holdout):
        raise ValueError(f"{path} is a holdout: name the run that it checks instead")
    first = (*run.phases, run.phase)[0]
    assert first is not None
    if run.released and run.released[0].pulls != first.pulls:
        raise SessionError(
            "rewards of phase 1 are missing, because an arm was withdrawn: its estimates are "
            "biased, and cannot be compared"
        )
    return run, first, _by_features(first, run.policy.features)


def _by_features(phase: Phase, features: FloatArray) -> set[int]:
    """Return the arms whose means a phase estimates not only from their own rewards.

    A phase that releases the difference of two arms estimates no mean. An arm whose features are
    all 0 has mean 0 by the model, without any reward.
    """
    active, weights = np.array(phase.active), phase.decoder @ phase.release
    own = np.equal.outer(active, phase.pulled)
    weights[own] = 0
    by_others = (np.abs(weights).max(axis=1, initial=0.0) > _ROUNDING) | ~own.any(axis=1)
    return set(active[unbiased(phase, features) & by_others].tolist())


def _others(run: Session, first: Phase, estimated: Set[int]) -> str:
    """Return which arms a holdout can check, or why there are none."""
    if not estimated and len(first.pulled) > first.coordinates == 1 and len(first.active) > 2:
        return (
            "phase 1 releases one number, which determines no mean; with a positive --misfit, "
            "such as 0.001, it releases sums"
        )
    if not estimated:
        return "phase 1 does not use the features, and needs no such check"
    others = listed((quoted(run.labels[arm]) for arm in sorted(estimated)), 40)
    return f"hold out other arms with `dpbai holdout`, such as {others}"


def _phases(run: Session, notes: list[str]) -> Iterator[Compared]:
    """Yield the later phases that can be compared with the first, and note the others."""
    first = run.phases[0]
    for plan, released in list(zip(run.phases, run.released, strict=True))[1:]:
        try:
            linearity.limits(first, plan)
        except ValueError:
            notes.append(f"Phase {plan.index} released a difference of two means, and no mean.")
            continue
        if released.pulls != plan.pulls:
            notes.append(f"Phase {plan.index} is not compared, because rewards are missing.")
            continue
        # The first release has decided which arms it has.
        yield f"phase {plan.index}", plan, released.statistic, len(first.active)


def _holdouts(run: Session, paths: list[str]) -> Iterator[Compared]:
    """Yield the holdouts in these files, with arms numbered as in the run."""
    check_named_once(paths, "name each holdout only once: it would be compared twice")
    for path in paths:
        session = resumed(path)
        if not isinstance(session.policy, Holdout):
            raise ValueError(f"{path} is not a holdout: `dpbai holdout` starts one")
        if session.reward_range != run.reward_range or not {*session.labels} <= {*run.labels}:
            raise ValueError(f"{path} is a holdout of another run: its arms or reward range differ")
        if not session.finished:
            raise SessionError(f"{path} is not finished: see `dpbai next {path}`")
        (plan,), (released,) = session.phases, session.released
        if released.pulls != plan.pulls:
            raise SessionError(f"{path} has an arm that was withdrawn, so it cannot be compared")
        arms = tuple(run.labels.index(label) for label in session.labels)
        yield path, replace(plan, active=arms, pulled=arms), released.statistic, None


COMMANDS: dict[str, Callable[[argparse.Namespace], Answer]] = {
    "holdout": holdout,
    "misfit": misfit,
}
