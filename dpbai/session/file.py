"""What a session's file holds, as plain JSON, and back.

The file holds the policy (its class and parameters, so that no other plan can take it over), the
name of what draws the noise, the labels of the arms, the range of rewards, the names of batches,
what each finished phase released, and of the phase under way sums and counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpbai import _check
from dpbai._describe import class_name, plain, restored
from dpbai.policies import DPBAI, DPOD, Baseline, DPBAIGauss, DPDesign, ODLinBAI, Phase, Policy
from dpbai.session.noise import NumpyNoise, OpenDPNoise, ReleaseNoise
from dpbai.session.phase import shortened
from dpbai.session.records import Label, Released
from dpbai.session.run import Run

_OWN = (DPBAI, DPBAIGauss, Baseline, DPDesign, ODLinBAI, DPOD)
_TOLERANCE = 1e-9

Content = Mapping[str, Any]


def content(run: Run) -> Content:
    """Return the JSON content of a session's file."""
    current = None
    if run.phase is not None:
        sums = [str(total) for total in run.sums]
        current = {**_plan(run.phase, run.labels), "counts": list(run.counts), "sums": sums}
    return {
        "policy": _described(run.policy),
        "noise": run.noise.name,
        "labels": list(run.labels),
        "reward_range": list(run.reward_range),
        "batches": dict(run.batches),
        "finished": [plain(vars(released)) for released in run.finished],
        "current": current,
    }


def run_in(content: Content, policy: Policy | None, noise: ReleaseNoise) -> Run:
    """Return the run that a content tells of; an error of some kind if it does not fit together."""
    policy = _policy_of(content["policy"], policy)
    run = Run.begun(policy, noise, content["labels"], content["reward_range"])
    for entry in restored(content["finished"]):
        released = Released(**entry)
        run = run.after(released, shortened(run.plan, released.pulls))
    sums, counts = _received(content, run.phase)
    batches = {name: int(phase) for name, phase in content["batches"].items()}
    return replace(run, sums=sums, counts=counts, batches=batches)


def noise_of(name: str, given: ReleaseNoise | None) -> ReleaseNoise:
    """Return the noise that a file was begun with: if none is given, one of this library's."""
    if given is None:
        sources = {source.name: source for source in (OpenDPNoise, NumpyNoise)}
        if name not in sources:
            raise ValueError(f"it was begun with noise from {name}: pass that noise")
        return sources[name]()
    if _check.kind(given, "noise", ReleaseNoise).name != name:
        raise ValueError(f"it was begun with noise from {name}")
    return given


def _received(
    content: Content, phase: Phase | None
) -> tuple[tuple[Fraction, ...], tuple[int, ...]]:
    """Return the sums and counts of the phase under way; ValueError if they do not fit its plan."""
    stored = content["current"]
    if phase is None or stored is None:
        if phase is not stored:
            raise ValueError("the phase under way does not follow from the finished ones")
        return (), ()
    planned = _plan(phase, content["labels"])
    noise, wanted = stored["noise"], planned["noise"]
    # A noise scale may come from linear algebra, which differs in the last bits between machines.
    same_noise = noise.keys() == wanted.keys() and all(
        noise[key] == wanted[key] or math.isclose(noise[key], wanted[key], rel_tol=_TOLERANCE)
        for key in noise
    )
    if not same_noise or any(stored[key] != planned[key] for key in planned.keys() - {"noise"}):
        raise ValueError(f"phase {phase.index} was begun with another plan than this version makes")
    try:
        sums, counts = tuple(map(Fraction, stored["sums"])), tuple(stored["counts"])
        rows = zip(counts, sums, phase.pulls, strict=True)
        fit = all(0 <= total <= count <= pulls for count, total, pulls in rows)
    except (ValueError, TypeError, ArithmeticError):  # which would tell what the sums are
        fit = False
    if not fit:
        raise ValueError("its sums and counts do not fit its plan")
    return sums, counts


def _policy_of(made_for: Content, given: Policy | None) -> Policy:
    """Return the policy that a file was made for: if none is given, one of this library's classes.

    ValueError if the one given has other parameters, or there is none of that class.
    """
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
        raise ValueError(f"it was made for another plan: {', '.join(differing)} differ")
    return given


def _described(policy: Policy) -> Content:
    """Return the class and the parameters of a policy; TypeError if it is no dataclass of these."""
    if not hasattr(policy, "__dataclass_fields__"):
        raise TypeError("policy must be a dataclass, so that its parameters can be saved")
    description: Content = plain(policy)
    return description


def _plan(phase: Phase, labels: Sequence[Label]) -> Content:
    return {
        "phase": phase.index,
        "active": [labels[arm] for arm in phase.active],
        "pulled": [labels[arm] for arm in phase.pulled],
        "pulls": list(phase.pulls),
        "noise": plain(phase.noise),
    }
