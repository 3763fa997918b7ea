"""What a session has done so far."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Integral
from typing import Any

from dpbai import _check
from dpbai.policies import Phase


class SessionError(RuntimeError):
    """A session that cannot take a step, or a file that is refused; nothing has changed."""


Label = int | str
"""What an arm is called."""


def named(label: Any) -> Label | None:
    """Return a label as a plain int or str with accents in normal form C; None if it is none."""
    if isinstance(label, str):
        return unicodedata.normalize("NFC", str.__str__(label))  # str() of an enum is its own name
    return None if isinstance(label, bool) or not isinstance(label, Integral) else int(label)


def checked_labels(labels: Sequence[Label], arms: int) -> tuple[Label, ...]:
    """Return labels that name so many arms, also as text: 1 and "1" are one name in a table."""
    checked = []
    for label in _check.sequence(labels, "labels"):
        if (name := named(label)) is None:
            raise TypeError(f"labels must be integers or strings, got {_check.told(label)}")
        checked.append(name)
    texts = {str(label).strip() for label in checked} - {""}
    if len(checked) != arms or len(texts) != arms:
        raise ValueError(f"labels must be {arms} distinct names, one for each arm, also as text")
    return tuple(checked)


@dataclass(frozen=True)
class Release:
    """What one phase released: all of it may be published.

    Attributes
    ----------
    statistic : tuple of float
        The released statistic of rewards mapped to [0, 1], noise included.
    epsilon, delta : float
        The privacy loss of this release, by the account of what drew the noise.
    remarks : tuple of str
        What speaks against what drew the noise.
    """

    statistic: tuple[float, ...]
    epsilon: float
    delta: float
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Released(Release):
    """What one finished phase of a session released, and what followed from it.

    Attributes
    ----------
    phase : int
        p, counted from 1.
    active, survivors : tuple of int or str
        Labels of the arms in play, and of those that went on.
    pulled : tuple of int or str
        Labels of the arms that were pulled.
    pulls : tuple of int
        How often each of them was: as planned, or less if the phase was ended early.
    estimates : tuple of float
        Estimated means of the `active` arms, computed from what was released, in the units of the
        rewards.
    """

    phase: int
    active: tuple[Label, ...]
    pulled: tuple[Label, ...]
    pulls: tuple[int, ...]
    estimates: tuple[float, ...]
    survivors: tuple[Label, ...]


@dataclass(frozen=True, eq=False)
class State:
    """How far a session has come.

    `past` are the plans of the `finished` phases, as they were executed; `phase` is the one under
    way, None when one arm is left. `sums` and `counts` are of the rewards, mapped to [0, 1], that
    came in for each arm that it pulls. `batches` names those recorded, each with its phase.
    """

    finished: tuple[Released, ...]
    past: tuple[Phase, ...]
    phase: Phase | None
    sums: tuple[Fraction, ...]
    counts: tuple[int, ...]
    batches: Mapping[str, int]

    @property
    def plan(self) -> Phase:
        """The plan under way; SessionError if one arm is left."""
        if self.phase is None:
            raise SessionError("the session is finished and takes no more rewards")
        return self.phase


def with_batch(state: State, batch: Label, undo: bool) -> State:
    """Return the state with the name of one more batch, or of one less."""
    name = named(batch)
    if name is None:
        raise TypeError(f"batch must be an integer or a string, got {_check.told(batch)}")
    if name == "":
        raise ValueError("batch must have a name that is not empty")
    batches, phase = dict(state.batches), len(state.finished) + 1
    before = batches.pop(str(name), None)
    if undo and before != phase:
        reason = "was not recorded" if before is None else f"is in phase {before}, now released"
        raise SessionError(f"batch {name!r} {reason}, and cannot be undone")
    if not undo:
        if before is not None:
            raise SessionError(f"batch {name!r} was recorded already, in phase {before}")
        batches[str(name)] = phase
    return replace(state, batches=batches)
