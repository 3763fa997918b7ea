"""What a session's file holds, as plain JSON, and back.

The file holds the policy (its class and parameters, so that no other plan can take it over), the
name of what draws the noise, the labels of the arms, the range of rewards, the names of batches,
what each finished phase released, and of the phase under way sums and counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpbai._describe import class_name, plain, restored
from dpbai.policies import DPBAI, DPOD, Baseline, DPBAIGauss, DPDesign, ODLinBAI, Phase, Policy
from dpbai.session.records import Label, Released, State
from dpbai.session.rewards import Range

_OWN = (DPBAI, DPBAIGauss, Baseline, DPDesign, ODLinBAI, DPOD)
_TOLERANCE = 1e-9

Content = Mapping[str, Any]


def content(
    policy: Policy, noise: str, labels: Sequence[Label], reward_range: Range, state: State
) -> Content:
    """Return the JSON content of a session's file."""
    current = None
    if state.phase is not None:
        current = {
            **_plan(state.phase, labels),
            "counts": list(state.counts),
            "sums": [str(total) for total in state.sums],
        }
    return {
        "policy": described(policy),
        "noise": noise,
        "labels": list(labels),
        "reward_range": list(reward_range),
        "batches": dict(state.batches),
        "finished": [plain(vars(released)) for released in state.finished],
        "current": current,
    }


def finished_in(content: Content) -> tuple[Released, ...]:
    """Return what the finished phases released."""
    return tuple(Released(**entry) for entry in restored(content["finished"]))


def received_in(
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


def policy_of(made_for: Content, given: Policy | None) -> Policy:
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
    own = described(given)
    differing = [key for key in {**made_for, **own} if made_for.get(key) != own.get(key)]
    if differing:
        raise ValueError(f"it was made for another plan: {', '.join(differing)} differ")
    return given


def described(policy: Policy) -> Content:
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
