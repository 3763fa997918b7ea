"""Whether the releases of a run fit means that are linear in the features: holdout and misfit."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from dpbai.beyond import linearity
from dpbai.field.cli import advice
from dpbai.field.cli.run import arm_named, missing, resumed
from dpbai.field.cli.sheets import listed, quoted
from dpbai.field.cli.tables import Answer, Table
from dpbai.field.session import Session, SessionError
from dpbai.phase import Phase

_LEVEL = 0.05
_ROUNDING = 1e-9


def holdout(given: argparse.Namespace) -> Answer:
    """Begin a holdout of a run, in a session file of its own."""
    run = resumed(given.run)
    first = _first(run)
    names = sorted({arm_named(run, name) for name in given.held_out}, key=run.labels.index)
    if len(names) < len(given.held_out):
        raise ValueError("name each arm to hold out once")
    arms = [run.labels.index(name) for name in names]
    modelled = _by_features(first)
    if own := [run.labels[arm] for arm in arms if arm not in modelled]:
        raise ValueError(
            f"phase 1 estimates {listed(map(quoted, own))} from rewards of its own, not from the "
            f"features, so that holding it out checks nothing: {_others(run, first)}"
        )
    epsilon = given.epsilon or vars(run.policy).get("epsilon", math.inf)
    plan = linearity.holdout(arms, pulls=given.pulls, epsilon=epsilon)
    limits = run.reward_range.width * linearity.limits(first, plan, level=_LEVEL)
    policy = linearity.Holdout(run.policy.features[arms], budget=plan.cost, epsilon=epsilon)
    session = Session(
        policy,
        noise=run.noise,
        path=given.session,
        labels=names,
        reward_range=run.reward_range,
        population=run.population,
    )
    rows = list(zip(names, plan.pulls, limits.tolist(), strict=True))
    return Answer(
        Table(["arm", "pulls", "limit"], rows),
        above=[f"{given.session} is ready."],
        below=[
            "limit: how far the mean of the new rewards and the estimate of phase 1 can be apart "
            f"if means are linear in the features, in {1 - _LEVEL:.0%} of cases. A mean that is "
            "off by twice as much is noticed as often.",
            missing(session),
            f"Then compare: dpbai misfit {given.run} {given.session}",
        ],
    )


def misfit(given: argparse.Namespace) -> Answer:
    """Compare what a run released in phase 1 with later phases and with holdouts."""
    run = resumed(given.session)
    if not run.released:
        raise SessionError("no phase of the run has been released yet: see `dpbai next`")
    first, released = run.phases[0], run.released[0]
    notes: list[str] = []
    compared = [*_phases(run, notes), *_holdouts(run, given.holdouts)]
    scale, rows, found, modelled = run.reward_range, [], set(), _by_features(first)
    for name, plan, statistic, candidates in compared:
        result = linearity.misfit(
            first,
            released.statistic,
            plan,
            statistic,
            level=_LEVEL / len(compared),
            candidates=candidates,
        )
        for arm, difference, limit in zip(
            result.arms, result.differences.tolist(), result.limits.tolist(), strict=True
        ):
            if arm not in modelled:
                continue
            label, estimate = run.labels[arm], released.estimates[arm]
            off, most = scale.width * difference, scale.width * limit
            rows.append((label, name, estimate, estimate + off, off, most))
            found |= {str(label)} if abs(difference) > limit else set()
    if rows:
        verdict = _verdict(found)
    else:
        verdict = (
            "There is nothing to compare with the estimates of phase 1 that use the features: "
            f"{_others(run, first)}."
        )
    columns = ["arm", "compared_with", "phase_1", "again", "difference", "limit"]
    return Answer(
        Table(columns, rows) if rows else None,
        below=[verdict, *notes, advice.model(run.policy), advice.fitted(run)],
        facts={"found": sorted(found)},
    )


def _first(run: Session) -> Phase:
    """Return the plan of phase 1, which must be complete if it has been released."""
    if not run.released:
        assert run.phase is not None
        return run.phase
    if run.released[0].pulls != run.phases[0].pulls:
        raise SessionError(
            "rewards of phase 1 are missing, because an arm was withdrawn: what the model computes "
            "from them is biased, and cannot be compared"
        )
    return run.phases[0]


def _by_features(phase: Phase) -> set[int]:
    """Return the arms that a phase estimates with rewards of other arms."""
    if phase.decoder_matrix is None:
        return set()
    weights = np.abs(phase.decoder_matrix @ phase.release)
    weights[np.equal.outer(phase.active, phase.pulled)] = 0
    found = weights.max(axis=1, initial=0.0) > _ROUNDING
    return {arm for arm, uses in zip(phase.active, found.tolist(), strict=True) if uses}


def _others(run: Session, first: Phase) -> str:
    """Return which arms can be held out."""
    others = [run.labels[arm] for arm in sorted(_by_features(first))]
    if not others:
        return "this run does not use the features in phase 1, and needs no such check"
    return f"hold out other arms with `dpbai holdout`, such as {listed(map(quoted, others), 40)}"


def _phases(run: Session, notes: list[str]) -> Iterator[tuple[str, Phase, tuple[float, ...], int]]:
    """Yield the later phases that can be compared with the first, and note the others."""
    first = _first(run)
    for plan, released in list(zip(run.phases, run.released, strict=True))[1:]:
        name = f"phase {plan.index}"
        try:
            linearity.limits(first, plan)
        except ValueError:
            notes.append(f"Phase {plan.index} released a difference of two means, and no mean.")
            continue
        if released.pulls != plan.pulls:
            notes.append(f"Phase {plan.index} is not compared, as rewards are missing.")
            continue
        # Which arms it has, the first release has decided.
        yield name, plan, released.statistic, len(first.active)


def _holdouts(
    run: Session, paths: list[str]
) -> Iterator[tuple[str, Phase, tuple[float, ...], None]]:
    """Yield the holdouts in these files, with arms numbered as in the run."""
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise ValueError("name each holdout once: it would be compared twice")
    for path in paths:
        session = resumed(path)
        if not isinstance(session.policy, linearity.Holdout):
            raise ValueError(f"{path} is no holdout: `dpbai holdout` makes one")
        if session.reward_range != run.reward_range or not {*session.labels} <= {*run.labels}:
            raise ValueError(f"{path} is a holdout of another run: its arms or its range differ")
        if not session.finished:
            raise SessionError(f"{path} is not finished: see `dpbai next {path}`")
        (plan,), (released,) = session.phases, session.released
        if released.pulls != plan.pulls:
            raise SessionError(f"{path} has an arm that was withdrawn, and cannot be compared")
        arms = tuple(run.labels.index(label) for label in session.labels)
        plan = replace(plan, active=arms, pulled=arms)
        yield path, plan, released.statistic, None


def _verdict(found: set[str]) -> str:
    """Return what the differences say of linear means."""
    if found:
        return (
            f"The means are not linear in the features: {listed(map(quoted, sorted(found)))} "
            "differ by more than the limit, and if means were linear, this would happen in "
            f"{_LEVEL:.0%} of cases at most. Give the next run other features, a larger --misfit, "
            "or --one-hot."
        )
    return (
        "No difference exceeds its limit: these comparisons do not contradict linear means. They "
        "may miss means that are off by less than twice the limit."
    )


COMMANDS: dict[str, Callable[[argparse.Namespace], Answer]] = {"holdout": holdout, "misfit": misfit}
