"""What a session promises, whatever its rewards will be."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from itertools import chain

from dpbai.policies import Phase, Policy
from dpbai.privacy.plans import reachable, representable
from dpbai.session.noise import ReleaseNoise, shifts
from dpbai.session.records import Released

_LIMIT = 500
_LINE = 88  # characters


@dataclass(frozen=True)
class SessionCertificate:
    """The guarantee of a session, by the account of what draws its noise.

    It covers every plan that the session may come to, and not only those that it came to: which
    these are depends on the rewards, so their own losses alone would promise too much.

    Attributes
    ----------
    epsilon, delta : float
        All that a session releases is (epsilon, delta)-differentially private in each one reward.
    planned_epsilon : float
        The same by the law of the noise in real numbers, as in `dpbai.certificate`.
    mechanism : str
        What draws the noise.
    released : int
        How many phases have been released so far.
    remarks : tuple of str
        What the numbers do not say.
    """

    epsilon: float
    delta: float
    planned_epsilon: float
    mechanism: str
    released: int
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        promised = f"{_told(self.epsilon, self.planned_epsilon)}, delta = {self.delta:g}"
        paragraphs = [
            f"Each one reward: {promised}, for all releases together, past and to come.",
            f"Noise from {self.mechanism}, by its own account; by the law of the noise alone, "
            f"epsilon = {self.planned_epsilon:g}.",
            f"Phases released so far: {self.released}.",
            *(f"Note: {remark}." for remark in self.remarks),
        ]
        return "\n".join(textwrap.fill(text, _LINE, subsequent_indent="  ") for text in paragraphs)


def _told(epsilon: float, planned: float) -> str:
    """Return an epsilon as text that never promises more than it does."""
    excess = epsilon - planned
    if 0 < excess < 1e-6 * planned:
        return f"epsilon = {_up(planned, 6)} + {_up(excess)} (rounding)"
    return f"epsilon = {epsilon if math.isinf(epsilon) else _up(epsilon, 6)}"


def _up(value: float, digits: int = 2) -> str:
    """Return a value in so many digits, rounded up."""
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal(Decimal(value))):.{digits}g}"


@dataclass(frozen=True)
class Guarantee:
    """The largest losses over many plans, and whether they are all plans of the policy."""

    epsilon: float
    delta: float
    planned_epsilon: float
    complete: bool

    @classmethod
    def of(cls, policy: Policy, source: ReleaseNoise) -> Guarantee:
        """Return the guarantee of a policy under noise from `source`."""
        plans, complete = _plans(policy)
        changes = {(phase.noise, shift) for phase in plans for shift in shifts(phase)}
        return cls(
            epsilon=max((source.loss(noise, shift) for noise, shift in changes), default=0.0),
            delta=max((noise.delta for noise, _ in changes), default=0.0),
            planned_epsilon=max((max(phase.losses, default=0.0) for phase in plans), default=0.0),
            complete=complete,
        )

    def certificate(self, source: ReleaseNoise, released: Iterable[Released]) -> SessionCertificate:
        """Return the certificate of a session that has `released` some phases."""
        released = tuple(released)
        epsilon = max((self.epsilon, *(phase.epsilon for phase in released)))
        remarks = [*source.remarks, *(remark for phase in released for remark in phase.remarks)]
        if math.isinf(epsilon):
            remarks.append("there is a phase without noise, and so no privacy")
        if not self.complete:
            remarks.append(
                f"there are too many active sets to list; {_LIMIT} were drawn for each phase, and "
                "epsilon is the largest of these and of the phases that were released"
            )
        return SessionCertificate(
            epsilon=epsilon,
            delta=self.delta,
            planned_epsilon=self.planned_epsilon,
            mechanism=source.name,
            released=len(released),
            remarks=tuple(dict.fromkeys(remarks)),
        )


def loss(phase: Phase, source: ReleaseNoise) -> float:
    """Return the privacy loss of one phase under noise from `source`."""
    return max((source.loss(phase.noise, shift) for shift in shifts(phase)), default=0.0)


def _plans(policy: Policy) -> tuple[list[Phase], bool]:
    """Return plans that release whatever a run of `policy` can release, and whether all of it."""
    if representable(policy):
        some, _ = reachable(policy, 1)
        listed = (policy.representatives(index) for index in range(1, len(some) + 1))
        return [*chain.from_iterable(some), *chain.from_iterable(listed)], True
    by_phase, complete = reachable(policy, _LIMIT)
    return list(chain.from_iterable(by_phase)), complete
