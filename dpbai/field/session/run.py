"""How far a run has come, and the steps on from there: take sums, release, begin the next phase.

A `Run` is a value, and each step returns the run after it: a `dpbai.Session` decides which of them
is saved and shown. Noise is drawn in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any, Self

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.certificate import Certificate, certificate, certify
from dpbai.field.session.noise import NumpyNoise, ReleaseNoise
from dpbai.field.session.phase import noisy_release, shortened
from dpbai.field.session.records import (
    Label,
    Release,
    Released,
    SessionError,
    checked_labels,
    named,
)
from dpbai.field.session.rewards import Range, Sum, checked_range
from dpbai.phase import Phase, Policy, arms_of, planned

_ROUNDING = 1e-6  # linear algebra differs in the last bits between machines


@dataclass(frozen=True, eq=False)
class Run:
    """A policy on real rewards, as far as it has come.

    `promised` tells the guarantee of all that the run may release, and computes it once. `past` are
    the plans of the `finished` phases, as they were executed; `phase` is the one under way, None
    when one arm is left. `sums` and `counts` are of the rewards, mapped to [0, 1], that came in for
    each arm that it pulls. `batches` names those recorded, each with its phase.
    """

    policy: Policy
    noise: ReleaseNoise
    labels: tuple[Label, ...]
    reward_range: Range
    promised: Callable[[], Certificate]
    finished: tuple[Released, ...] = ()
    past: tuple[Phase, ...] = ()
    phase: Phase | None = None
    sums: tuple[Fraction, ...] = ()
    counts: tuple[int, ...] = ()
    batches: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def begun(
        cls, policy: Policy, noise: ReleaseNoise, labels: Sequence[Label] | None, bounds: Any
    ) -> Self:
        """Return a run in its first phase; ValueError or TypeError if it cannot be one."""
        arms = arms_of(policy)
        names = checked_labels(range(arms) if labels is None else labels, arms)
        promised = cache(partial(certificate, policy, mechanism=noise))
        return cls(policy, noise, names, checked_range(bounds), promised)._next()

    @property
    def plan(self) -> Phase:
        """The plan under way; SessionError if one arm is left."""
        if self.phase is None:
            raise SessionError("the session is finished and takes no more rewards")
        return self.phase

    def with_batch(self, batch: Label, undo: bool) -> Self:
        """Return the run with the name of one more batch, or of one less."""
        name = named(batch)
        if name is None:
            raise TypeError(f"batch must be an integer or a string, got {_check.told(batch)}")
        if name == "":
            raise ValueError("batch must have a name that is not empty")
        batches, phase = dict(self.batches), len(self.finished) + 1
        before = batches.pop(str(name), None)
        if undo and before != phase:
            reason = "was not recorded" if before is None else f"is in phase {before}, now released"
            raise SessionError(f"batch {name!r} {reason}, and cannot be undone")
        if not undo:
            if before is not None:
                raise SessionError(f"batch {name!r} was recorded already, in phase {before}")
            batches[str(name)] = phase
        return replace(self, batches=batches)

    def with_rewards(self, parts: Sequence[tuple[Any, Sum]], undo: bool) -> Self:
        """Return the run with more rewards, or without some."""
        phase, sign = self.plan, -1 if undo else 1
        places: dict[Label | None, int]
        places = {self.labels[arm]: place for place, arm in enumerate(phase.pulled)}
        sums, counts = list(self.sums), list(self.counts)
        for label, (total, count) in parts:
            # A label that is unknown is not repeated: it may be a reward in the wrong place.
            if (place := places.get(named(label))) is None:
                raise ValueError("rewards must be of arms that are asked for, see requests")
            missing = phase.pulls[place] - counts[place]
            if not undo and count > missing:
                raise ValueError(f"arm {label!r} needs {missing} more rewards, got {count}")
            if undo and not 0 <= sums[place] - total <= counts[place] - count:
                raise ValueError(f"arm {label!r} has not had these rewards in this phase")
            sums[place] += sign * total
            counts[place] += sign * count
        return replace(self, sums=tuple(sums), counts=tuple(counts))

    def advanced(self) -> Self:
        """Release the phase under way if it is complete, and so on."""
        run = self
        while run.phase is not None and run.counts == run.phase.pulls:
            run = run.after(run._release(run.phase), run.phase)
        return run

    def ended(self) -> Self:
        """Release the phase under way with the rewards that came in, and so on."""
        phase = self.plan
        if not all(self.counts):
            arm = self.labels[phase.pulled[self.counts.index(0)]]
            raise SessionError(f"each arm needs one reward at least, and {arm!r} has none")
        executed = shortened(phase, self.counts)
        return self.after(self._release(executed), executed).advanced()

    def after(self, released: Released, executed: Phase) -> Self:
        """Return the run in which the phase after a released one begins."""
        finished, past = (*self.finished, released), (*self.past, executed)
        return replace(self, finished=finished, past=past)._next()

    def _next(self) -> Self:
        active = self.finished[-1].survivors if self.finished else self.labels
        if len(active) == 1:
            return replace(self, phase=None, sums=(), counts=())
        arm_of = {label: arm for arm, label in enumerate(self.labels)}
        arms = [arm_of[label] for label in active]
        spent = sum(phase.cost for phase in self.past)
        phase = planned(self.policy, len(self.past) + 1, arms, spent=spent, past=self.past)
        if phase.remembered and phase.remembered != len(self._statistics):
            raise ValueError("what its phases have released does not fit their plans")
        pulled = len(phase.pulled)
        return replace(self, phase=phase, sums=(Fraction(),) * pulled, counts=(0,) * pulled)

    def follows(self, released: Released, executed: Phase) -> bool:
        """Return whether a plan, up to rounding, makes its estimates of what was released."""
        values = self._known(released, executed)
        estimates = self.reward_range.shown(executed.estimates(values)[0])
        sizes = np.abs(executed.decoder) @ np.abs(values[0]) * self.reward_range.width
        error = _ROUNDING * float(np.max(sizes + np.abs(self.reward_range).max()))
        return np.allclose(released.estimates, estimates, rtol=0, atol=error)

    def _known(self, release: Release, phase: Phase) -> FloatArray:
        """Return all that is released when a phase is decoded, shape (1, remembered + q)."""
        before = self._statistics if phase.remembered else []
        return np.array([[*before, *release.statistic]])

    @property
    def _statistics(self) -> list[float]:
        """All that phases released, oldest first."""
        return [value for released in self.finished for value in released.statistic]

    def _release(self, phase: Phase) -> Released:
        """Release the phase under way, as it was executed."""
        if not self.promised().covers(certify([phase], mechanism=self.noise)):
            raise SessionError(
                f"the plan of phase {phase.index} loses more than all plans that the guarantee was "
                "computed from; a policy must plan the same phase for the same active set each time"
            )
        remarks: tuple[str, ...] = ()
        if phase is not self.phase:
            remarks = (
                f"phase {phase.index} was ended with {phase.cost} of {self.plan.cost} rewards, "
                "and with noise that is wider in proportion",
            )
        release = noisy_release(phase, self.sums, self.noise, phase.index)
        released = self._known(release, phase)
        # Chance that nobody knows breaks ties, unless the noise is from a seed.
        chance = np.random.default_rng()
        if isinstance(self.noise, NumpyNoise):
            chance = self.noise.generator(phase.index, 1)
        survivors = phase.survivors(released, chance)[0].tolist()
        active, pulled, stay = (
            tuple(self.labels[arm] for arm in arms)
            for arms in (phase.active, phase.pulled, survivors)
        )
        return Released(
            **{**vars(release), "remarks": release.remarks + remarks},
            phase=phase.index,
            active=active,
            pulled=pulled,
            pulls=phase.pulls,
            estimates=tuple(self.reward_range.shown(phase.estimates(released)[0]).tolist()),
            survivors=stay,
        )
