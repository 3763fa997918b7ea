"""The run in a session's file, as JSON.

A document holds the policy (its class and parameters), the name of what draws the noise, the labels
of the arms, the range of rewards, batches, the guarantee that was stated at the beginning, what
each finished phase released, and the sums and counts of the current phase. It also holds the plans
of all of these, which are executed as they were made, because linear algebra differs between
machines. They must keep to the stated guarantee and to the budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai._describe import class_name, plain, restored
from dpbai.beyond import DPDesign, DPHalving, Holdout
from dpbai.certificate import Certificate
from dpbai.field.session.noise import NumpyNoise, OpenDPNoise
from dpbai.field.session.records import Batch, Released, SessionError
from dpbai.field.session.run import Run
from dpbai.noise import LAWS, Mechanism
from dpbai.phase import Phase, Policy
from dpbai.policies import DPBAI, DPOD, Baseline, DPBAIGauss, ODLinBAI

_OWN = (DPBAI, DPBAIGauss, Baseline, DPDesign, DPHalving, ODLinBAI, DPOD, Holdout)
_LAWS = {class_name(law): law for law in LAWS}

UNFIT = (LookupError, AttributeError, TypeError, ValueError, ArithmeticError, SessionError)
"""What `run_in` raises for a content that does not fit together."""

Content = Mapping[str, Any]


def content_of(run: Run) -> Content:
    """Return the content of a document."""
    current = None
    if run.phase is not None:
        parts = {
            name: [[label, str(total)] for label, total in part.items()]
            for name, part in run.parts.items()
        }
        sums = [str(total) for total in run.sums]
        counts = list(run.counts)
        current = {"plan": _saved(run.phase), "counts": counts, "sums": sums, "batches": parts}
    finished = [
        {"plan": _saved(phase), **plain(vars(released))}
        for phase, released in zip(run.past, run.finished, strict=True)
    ]
    return {
        "policy": _described(run.policy),
        "noise": run.noise.name,
        "labels": list(run.labels),
        "reward_range": list(run.reward_range),
        "population": run.population,
        "stated": _fields(run.stated),
        "withdrawn": list(run.withdrawn),
        "batches": {
            name: [batch.phase, [list(item) for item in batch.counts.items()]]
            for name, batch in run.batches.items()
        },
        "finished": finished,
        "current": current,
    }


def run_in(content: Content, policy: Policy | None, noise: Mechanism | None) -> Run:
    """Return the run in a content; an error of `UNFIT` if it does not fit together."""
    policy, noise = _policy_of(content["policy"], policy), _noise_of(content["noise"], noise)
    stated = Certificate(**restored(content["stated"]))
    labels, bounds, people = (content[n] for n in ("labels", "reward_range", "population"))
    run = Run.of(policy, noise, labels, bounds, people, stated)
    for entry in content["finished"]:
        phase = _plan(entry["plan"])
        released = Released(**restored({key: entry[key] for key in entry.keys() - {"plan"}}))
        run = run.next(phase)
        names = [tuple(run.labels[arm] for arm in arms) for arms in (phase.active, phase.pulled)]
        if not (
            [released.active, released.pulled] == names
            and released.phase == phase.index
            and len(released.statistic) == phase.coordinates
            and len(set(released.survivors) & set(released.active)) == phase.keep
            and len(released.survivors) == phase.keep
            and all(0 <= n <= pulls for n, pulls in zip(released.pulls, phase.pulls, strict=True))
        ):
            raise ValueError(f"what phase {phase.index} released does not fit its plan")
        run = replace(run, finished=(*run.finished, released), past=(*run.past, phase))
    withdrawn = tuple(content["withdrawn"])
    batches = {
        name: Batch(phase, dict(counts)) for name, (phase, counts) in content["batches"].items()
    }
    if not set(withdrawn) <= set(run.labels):
        raise ValueError("an arm that was withdrawn is none of its arms")
    run = replace(run, batches=batches, withdrawn=withdrawn)
    current = content["current"]
    if current is None:
        if len(run.finished[-1].survivors) > 1:
            raise ValueError("the current phase is missing")
        return run.next()
    return _received(run.next(_plan(current["plan"])), current)


def _received(run: Run, current: Content) -> Run:
    """Return the run with the sums of its current phase; ValueError if they do not fit its plan."""
    try:
        sums, counts = tuple(map(Fraction, current["sums"])), tuple(current["counts"])
        rows = zip(counts, sums, run.plan.pulls, strict=True)
        fit = all(0 <= total <= count <= pulls for count, total, pulls in rows)
        parts = {
            name: {label: Fraction(total) for label, total in part}
            for name, part in current["batches"].items()
        }
        recorded = {name for name, batch in run.batches.items() if batch.phase == run.plan.index}
        fit = fit and parts.keys() == recorded
    except (ValueError, TypeError, ArithmeticError, AttributeError):  # which may quote a sum
        fit = False
    if not fit:
        raise ValueError("its sums and counts do not fit its plan")
    return replace(run, sums=sums, counts=counts, parts=parts)


def _noise_of(name: str, given: Mechanism | None) -> Mechanism:
    """Return the given noise, or one of this library, if it is what the run was begun with."""
    if given is None:
        sources = {source.name: source for source in (OpenDPNoise, NumpyNoise)}
        if name not in sources:
            raise ValueError(f"it was begun with noise from {name}: pass that noise")
        return sources[name]()
    if _check.kind(given, "noise", Mechanism).name != name:
        raise ValueError(f"it was begun with noise from {name}")
    return given


def _policy_of(made_for: Content, given: Policy | None) -> Policy:
    """Return the given policy, or one of this library, if it is what the file was made for."""
    if given is None:
        makers: dict[str, Any] = {class_name(maker): maker for maker in _OWN}
        if made_for["class"] not in makers:
            raise ValueError("its policy is none of this library: pass that policy")
        parameters = restored(made_for)
        maker = makers[parameters.pop("class")]
        given = maker(np.array(parameters.pop("features"), dtype=np.float64), **parameters)
    own = _described(given)
    differing = [key for key in {**made_for, **own} if made_for.get(key) != own.get(key)]
    if differing:
        raise ValueError(f"it was made for another policy: {', '.join(differing)} differ")
    return given


def _described(policy: Policy) -> Content:
    """Return the class and the parameters of a policy; TypeError if they cannot be saved."""
    if not hasattr(policy, "__dataclass_fields__"):
        raise TypeError("policy must be a dataclass, so that its parameters can be saved")
    description: Content = plain(policy)
    return description


def _fields(value: Any) -> Content:
    """Return the public parameters of a dataclass."""
    names = [field.name for field in fields(value) if field.name[0] != "_"]
    return {name: plain(getattr(value, name)) for name in names}


def _saved(phase: Phase) -> Content:
    """Return a plan for a file; TypeError if its noise is none of this library."""
    if (law := class_name(type(phase.noise))) not in _LAWS:
        raise TypeError(f"noise of the class {law} cannot be saved")
    return _fields(phase)


def _plan(saved: Content) -> Phase:
    """Return the plan that was saved; an error of `UNFIT` if it is none."""
    noise, release, decoder = dict(saved["noise"]), saved["release_matrix"], saved["decoder_matrix"]
    pulled, delta = len(saved["pulled"]), saved.get("delta", 0.0)
    if "delta" in noise:  # of Gaussian noise, before plans had one
        delta = noise.pop("delta")
    released = pulled if release is None else len(release)
    return Phase(
        **{
            **saved,
            "delta": delta,
            "noise": _LAWS[noise.pop("class")](**noise),
            "release_matrix": _matrix(release, pulled),
            "decoder_matrix": _matrix(decoder, saved["remembered"] + released),
        }
    )


def _matrix(rows: list[list[float]] | None, columns: int) -> FloatArray | None:
    return None if rows is None else np.array(rows, np.float64).reshape(len(rows), columns)
