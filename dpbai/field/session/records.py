"""The names of arms and batches, and what phases released."""

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
    """A session cannot take a step, or its file is refused; it has not changed."""


class SessionConflictError(SessionError):
    """Another process has changed the file since it was read here; nothing was recorded.

    Processes that share a file read it again and repeat the step.

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
    """Return a label as a plain int or str with accents in normal form C; None if it is none."""
    if isinstance(label, str):
        return unicodedata.normalize("NFC", str.__str__(label))  # str() of an enum is its own name
    return None if isinstance(label, bool) or not isinstance(label, Integral) else int(label)


def checked_labels(labels: Sequence[Label], arms: int) -> tuple[Label, ...]:
    """Return labels that name so many arms and differ as text, as 1 and "1" do not."""
    checked = []
    for label in _check.sequence(labels, "labels"):
        if (name := named(label)) is None:
            raise TypeError(f"labels must be integers or strings, got {_check.quoted(label)}")
        if UNSEEN.search(str(name)):
            raise ValueError(f"labels must have no control character, got {_check.quoted(label)}")
        checked.append(name)
    texts = {str(label).strip() for label in checked} - {""}
    if len(checked) != arms or len(texts) != arms:
        raise ValueError(f"labels must be {arms} distinct names, one for each arm, also as text")
    return tuple(checked)


def checked_name(value: Any, what: str) -> str:
    """Return the name of a batch or of a population; an error does not quote anything else."""
    if (name := named(value)) is None:
        raise TypeError(f"{what} must be an integer or a string")
    text = str(name).strip()
    if not text or UNSEEN.search(text):
        raise ValueError(f"{what} must have a name, without control characters")
    return text


@dataclass(frozen=True)
class Batch:
    """Rewards that were recorded together, under a name.

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
    """What one phase released, all of which is public.

    Attributes
    ----------
    statistic : tuple of float
        The released statistic of rewards mapped to [0, 1], noise included.
    epsilon, delta : float
        The privacy loss of this release, as computed by what drew the noise.
    remarks : tuple of str
        Remarks on the noise, and on missing rewards.
    """

    statistic: tuple[float, ...]
    epsilon: float
    delta: float
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Released(Release):
    """What one finished phase of a session released, and its consequences.

    Attributes
    ----------
    phase : int
        p, counted from 1.
    active, survivors : tuple of int or str
        Labels of the arms in play, and of those that survived.
    pulled : tuple of int or str
        Labels of the arms that were pulled.
    pulls : tuple of int
        The number of rewards of each of them: less than planned if the phase was ended early or the
        arm withdrawn.
    estimates : tuple of float
        Estimated means of the `active` arms, computed from what was released, in the units of the
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
