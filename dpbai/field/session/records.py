"""Names of arms and batches, and records of what phases released."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from dpbai import _check
from dpbai._describe import UNSEEN
from dpbai.phase import Phase


class SessionError(RuntimeError):
    """A session refuses a step or a file. Nothing has changed."""


class SessionConflictError(SessionError):
    """Another process has changed the file since this session read it. Nothing was recorded.

    Processes that share a file should resume the session and repeat the step.

    Examples
    --------
    >>> while True:  # doctest: +SKIP
    ...     session = Session.resume("run.json")
    ...     try:
    ...         session.record({"blue": [1]}, batch="visit 4711")
    ...         break
    ...     except SessionConflictError:
    ...         continue
    """


Label = int | str
"""The name of an arm."""


def named(label: Any) -> Label | None:
    """Return a label as a plain int, or as a str in normal form C; None if it is neither."""
    if isinstance(label, str):
        return unicodedata.normalize("NFC", str.__str__(label))  # str() of an enum is its name
    return None if isinstance(label, bool) or not isinstance(label, Integral) else int(label)


def checked_labels(labels: Sequence[Label], arms: int) -> tuple[Label, ...]:
    """Return labels of all arms, which must differ as text: 1 and "1" do not."""
    checked = []
    for label in _check.sequence(labels, "labels"):
        if (name := named(label)) is None:
            raise TypeError(f"labels must be integers or strings, got {_check.quoted(label)}")
        if UNSEEN.search(str(name)):
            raise ValueError(
                f"labels must not contain control characters, got {_check.quoted(label)}"
            )
        checked.append(name)
    texts = {str(label).strip() for label in checked} - {""}
    if len(checked) != arms or len(texts) != arms:
        raise ValueError(
            f"labels must be {arms} distinct names, one for each arm; they are compared as text"
        )
    return tuple(checked)


def checked_name(value: Any, what: str) -> str:
    """Return the name of a batch or population; errors do not quote it, as it may be a reward."""
    if (name := named(value)) is None:
        raise TypeError(f"{what} must be an integer or a string")
    text = str(name).strip()
    if not text or UNSEEN.search(text):
        raise ValueError(f"{what} must be a name that is not empty and has no control characters")
    return text


@dataclass(frozen=True)
class Batch:
    """Rewards that were recorded together under a name.

    Attributes
    ----------
    phase : int
        The phase in which they were recorded.
    counts : mapping of label to int
        The number of rewards of each arm.
    """

    phase: int
    counts: Mapping[Label, int]


@dataclass(frozen=True)
class Release:
    """What one phase released. All of it is public.

    Attributes
    ----------
    statistic : tuple of float
        The released statistic of rewards mapped to [0, 1], including the noise.
    epsilon, delta : float
        The privacy loss of this release, as computed by the source of the noise.
    remarks : tuple of str
        Remarks on the noise, and on missing rewards.
    """

    statistic: tuple[float, ...]
    epsilon: float
    delta: float
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Released(Release):
    """What one finished phase of a session released, and the results computed from it.

    Attributes
    ----------
    phase : int
        p, counted from 1.
    active, survivors : tuple of int or str
        Labels of the active arms, and of those that survived.
    pulled : tuple of int or str
        Labels of the arms that were pulled.
    pulls : tuple of int
        Number of rewards of each pulled arm: fewer than planned if the phase was ended early or the
        arm was withdrawn.
    estimates : tuple of float
        Estimated means of the `active` arms, computed from the releases, in the units of the
        rewards.
    plan : Phase
        The plan as it was executed.
    """

    phase: int
    active: tuple[Label, ...]
    pulled: tuple[Label, ...]
    pulls: tuple[int, ...]
    estimates: tuple[float, ...]
    survivors: tuple[Label, ...]
    plan: Phase = field(compare=False, repr=False)
