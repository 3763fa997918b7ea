"""What a session's file holds, as plain JSON, and back.

The file holds the policy (its class and parameters, so that no other plan can take it over), the
name of what draws the noise, the labels of the arms, the range of rewards, the names of batches,
what each finished phase released, and of the phase under way sums and counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import numpy as np

from dpbai._describe import class_name, plain, restored
from dpbai.policies import DPBAI, DPOD, Baseline, DPBAIGauss, DPDesign, ODLinBAI, Phase, Policy
from dpbai.session.records import Label, Released, State
from dpbai.session.rewards import Range

KIND, VERSION = "dpbai session", 2
OWN = (DPBAI, DPBAIGauss, Baseline, DPDesign, ODLinBAI, DPOD)
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
        "finished": [plain(asdict(released)) for released in state.finished],
        "current": current,
    }


def labels_of(content: Content) -> tuple[Label, ...]:
    """Return the labels of the arms."""
    return tuple(content["labels"])


def batches_in(content: Content) -> dict[str, int]:
    """Return the names of the batches that were recorded, each with its phase."""
    return {str(name): int(phase) for name, phase in content["batches"].items()}


def finished_in(content: Content) -> tuple[Released, ...]:
    """Return what the finished phases released."""
    return tuple(_released(entry) for entry in content["finished"])


def received_in(
    content: Content, phase: Phase | None
) -> tuple[tuple[Fraction, ...], tuple[int, ...]]:
    """Return the sums and counts of the phase under way.

    Raises
    ------
    ValueError
        If they were not begun for the plan `phase`, or do not fit it.
    """
    stored = content["current"]
    if phase is None or stored is None:
        if phase is not stored:
            raise ValueError("the phase under way does not follow from the finished ones")
        return (), ()
    _check_plan(stored, _plan(phase, labels_of(content)))
    sums, counts = tuple(map(Fraction, stored["sums"])), tuple(stored["counts"])
    rows = zip(counts, sums, phase.pulls, strict=True)
    if not all(0 <= total <= count <= pulls for count, total, pulls in rows):
        raise ValueError("its sums and counts do not fit its plan")
    return sums, counts


def _check_plan(stored: Content, planned: Content) -> None:
    noise, wanted = stored["noise"], planned["noise"]
    # A noise scale may come from linear algebra, which differs in the last bits between machines.
    same_noise = noise.keys() == wanted.keys() and all(
        noise[key] == wanted[key] or math.isclose(noise[key], wanted[key], rel_tol=_TOLERANCE)
        for key in noise
    )
    if not same_noise or any(stored[key] != planned[key] for key in planned.keys() - {"noise"}):
        raise ValueError(
            f"phase {planned['phase']} was begun with another plan than this version makes"
        )


def check_same(made_for: Content, given: Content) -> None:
    """Raise ValueError unless two descriptions are of the same policy."""
    keys = dict.fromkeys([*made_for, *given])
    differing = [key for key in keys if made_for.get(key) != given.get(key)]
    if differing:
        raise ValueError(f"it was made for another plan: {', '.join(differing)} differ")


def described(policy: Policy) -> Content:
    """Return the class and the parameters of a policy.

    Raises
    ------
    TypeError
        If the policy is no dataclass of numbers, strings and arrays.
    """
    if not hasattr(policy, "__dataclass_fields__"):
        raise TypeError("policy must be a dataclass, so that its parameters can be saved")
    description: Content = plain(policy)
    return description


def rebuilt(description: Content) -> Policy:
    """Return the policy of a description, if its class is one of this library.

    Raises
    ------
    ValueError
        If it is another class, or its parameters are out of range.
    """
    makers: dict[str, Any] = {class_name(maker): maker for maker in OWN}
    if description["class"] not in makers:
        raise ValueError("its policy is none of this library: pass that policy")
    parameters = {key: restored(value) for key, value in description.items() if key != "class"}
    features = np.array(parameters.pop("features"), dtype=np.float64)
    policy: Policy = makers[description["class"]](features, **parameters)
    return policy


def _plan(phase: Phase, labels: Sequence[Label]) -> Content:
    return {
        "phase": phase.index,
        "active": [labels[arm] for arm in phase.active],
        "pulled": [labels[arm] for arm in phase.pulled],
        "pulls": list(phase.pulls),
        "noise": plain(phase.noise),
    }


def _released(entry: Content) -> Released:
    values = {key: restored(value) for key, value in entry.items()}
    tuples: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
    }
    return Released(**tuples)
