"""The state of a run, and its steps: record sums, release a phase, begin the next one.

A `Run` is a value, and each step returns the next one; a `dpbai.Session` saves and shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any, Self

import numpy as np

from dpbai._check import FloatArray
from dpbai.certificate import Certificate, certificate, certify
from dpbai.field.session.noise import NumpyNoise
from dpbai.field.session.phase import noisy_release, shortened
from dpbai.field.session.records import (
    Batch,
    Label,
    Released,
    SessionError,
    checked_labels,
    checked_name,
    named,
)
from dpbai.field.session.rewards import Range, Sum, checked_range
from dpbai.noise import Mechanism
from dpbai.phase import Phase, Policy
from dpbai.plans import Stage, arms_of
from dpbai.ranking import Ranking


@dataclass(frozen=True, eq=False)
class Run:
    """The state of a policy on real rewards.

    `stated` is the guarantee that was given when the run began; `promised` computes that of all
    plans that the policy may make on this machine, once. `past` are the plans of the `finished`
    phases, as they were executed; `phase` is the current plan, None when one arm is left. `sums`
    and `counts` are those of the rewards, mapped to [0, 1], recorded for each arm that it pulls.
    `batches` are all recorded batches, and `parts` the sums by arm of those of the current phase.
    """

    policy: Policy
    noise: Mechanism
    labels: tuple[Label, ...]
    reward_range: Range
    population: str | None
    promised: Callable[[], Certificate]
    stated: Certificate
    finished: tuple[Released, ...] = ()
    past: tuple[Phase, ...] = ()
    phase: Phase | None = None
    sums: tuple[Fraction, ...] = ()
    counts: tuple[int, ...] = ()
    batches: Mapping[str, Batch] = field(default_factory=dict)
    parts: Mapping[str, Mapping[Label, Fraction]] = field(default_factory=dict)
    withdrawn: tuple[Label, ...] = ()

    @classmethod
    def of(
        cls,
        policy: Policy,
        noise: Mechanism,
        labels: Sequence[Label] | None,
        bounds: Any,
        population: Any = None,
        stated: Certificate | None = None,
    ) -> Self:
        """Return a run before its first phase; ValueError or TypeError if it cannot be one."""
        arms = arms_of(policy)
        names = checked_labels(range(arms) if labels is None else labels, arms)
        bounds = checked_range(bounds)
        people = None if population is None else checked_name(population, "population")
        promised = cache(partial(certificate, policy, mechanism=noise))
        return cls(
            policy,
            noise,
            names,
            bounds,
            people,
            promised,
            stated or replace(promised(), _changes=()),
        )

    @property
    def plan(self) -> Phase:
        """The current plan; SessionError if one arm is left."""
        if self.phase is None:
            raise SessionError("the session is finished and takes no more rewards")
        return self.phase

    @property
    def requests(self) -> dict[Label, int]:
        """How many rewards of each arm are missing in the current phase; empty at the end."""
        if self.phase is None:
            return {}
        rows = zip(self.phase.pulled, self.phase.pulls, self.counts, strict=True)
        missing = {self.labels[arm]: pulls - count for arm, pulls, count in rows if pulls > count}
        return {label: n for label, n in missing.items() if label not in self.withdrawn}

    @property
    def recommendation(self) -> Label | None:
        """The arm that is left, or None as long as there are more."""
        return None if self.phase else self.finished[-1].survivors[0]

    def with_rewards(self, given: Sequence[tuple[Any, Sum]], batch: Label | None) -> Self:
        """Return the run with more rewards."""
        phase, name = self.plan, None if batch is None else checked_name(batch, "batch")
        if name is not None and (before := self.batches.get(name)):
            raise SessionError(f"batch {name!r} was recorded already, in phase {before.phase}")
        places: dict[Label | None, int]
        places = {self.labels[arm]: place for place, arm in enumerate(phase.pulled)}
        sums, counts = list(self.sums), list(self.counts)
        part: dict[Label, Fraction] = {}
        came: dict[Label, int] = {}
        for label, (total, count) in given:
            # An unknown label is not quoted: it may be a reward in the wrong place.
            if (place := places.get(named(label))) is None or named(label) in self.withdrawn:
                raise ValueError("rewards must be of arms that are asked for, see requests")
            arm, missing = self.labels[phase.pulled[place]], phase.pulls[place] - counts[place]
            if count > missing:
                raise ValueError(f"arm {arm!r} needs {missing} more rewards, got {count}")
            sums[place] += total
            counts[place] += count
            part[arm] = part.get(arm, Fraction()) + total
            came[arm] = came.get(arm, 0) + count
        run = replace(self, sums=tuple(sums), counts=tuple(counts))
        if name is None:
            return run
        batches = {**self.batches, name: Batch(phase.index, came)}
        return replace(run, batches=batches, parts={**self.parts, name: part})

    def without(self, batch: Label) -> Self:
        """Return the run without the rewards of a batch of the current phase."""
        name, batches, parts = checked_name(batch, "batch"), dict(self.batches), dict(self.parts)
        if (taken := batches.pop(name, None)) is None:
            names = ", ".join(map(repr, batches)) or "none"
            raise SessionError(f"there is no batch of this name; there is: {names}")
        if (part := parts.pop(name, None)) is None:
            raise SessionError(f"batch {name!r} is in phase {taken.phase}, which has been released")
        pulled = [self.labels[arm] for arm in self.plan.pulled]
        sums = [total - part.get(label, 0) for label, total in zip(pulled, self.sums, strict=True)]
        counts = [
            n - taken.counts.get(label, 0) for label, n in zip(pulled, self.counts, strict=True)
        ]
        return replace(self, sums=tuple(sums), counts=tuple(counts), batches=batches, parts=parts)

    def withdrawing(self, label: Label) -> Self:
        """Return the run without requests for an arm."""
        name = named(label)
        active, pulled = (
            {self.labels[arm] for arm in arms} - set(self.withdrawn)
            for arms in (self.plan.active, self.plan.pulled)
        )
        if name is None or name not in active | pulled:
            raise SessionError("only an arm in play, or one that is pulled, can be withdrawn")
        if name in active and len(active) < 3:
            raise SessionError("two arms at least must stay in play")
        return replace(self, withdrawn=(*self.withdrawn, name)).advanced()

    def advanced(self) -> Self:
        """Release the current phase if it is complete, and begin the next, as often as possible."""
        run = self
        while run.phase is not None and not run.requests:
            run = run._released(run.phase).next()
        return run

    def ended(self) -> Self:
        """Release the current phase with the rewards recorded so far."""
        phase, missing = self.plan, self.requests
        pulls = []
        for arm, planned_pulls, count in zip(phase.pulled, phase.pulls, self.counts, strict=True):
            if not count and self.labels[arm] in missing:
                raise SessionError(
                    f"each arm needs at least one reward, and {self.labels[arm]!r} has none: "
                    "withdraw it if it can give none"
                )
            pulls.append(count if self.labels[arm] in missing else planned_pulls)
        return self._released(shortened(phase, pulls)).next().advanced()

    def next(self, plan: Phase | None = None) -> Self:
        """Return the run in its next phase, with a saved plan or the policy's.

        ValueError if the policy cannot have made it, SessionError if it loses more than stated.
        """
        active = self.finished[-1].survivors if self.finished else self.labels
        if self.finished and len(active) == 1 and plan is None:
            return replace(self, phase=None, sums=(), counts=(), parts={})
        arm_of = {label: arm for arm, label in enumerate(self.labels)}
        arms = tuple(arm_of[label] for label in active)
        stage = Stage(self.policy, arms, self.past)
        if plan is None:
            plan = stage.phase
            if plan.decoder_matrix is not None:  # in the order of a file, so that sums round alike
                plan = replace(plan, decoder_matrix=np.ascontiguousarray(plan.decoder_matrix))
        else:
            plan = stage.fitting(plan)
        if not self.stated.covers(certify([plan], mechanism=self.noise)):
            raise SessionError(
                f"the plan of phase {plan.index} loses more than any plan that the guarantee was "
                "computed from; a policy must plan the same phase for the same active set each time"
            )
        pulled = len(plan.pulled)
        return replace(
            self, phase=plan, sums=(Fraction(),) * pulled, counts=(0,) * pulled, parts={}
        )

    def _released(self, phase: Phase) -> Self:
        """Return the run after a plan: the current one, or that with fewer pulls."""
        rows = list(zip(phase.pulled, phase.pulls, self.sums, self.counts, strict=True))
        # Missing rewards of an arm that was withdrawn count as the middle of the range.
        sums = [total + Fraction(pulls - count, 2) for _, pulls, total, count in rows]
        release = noisy_release(phase, sums, self.noise, phase.index)
        remarks = list(release.remarks)
        if phase is not self.phase:
            remarks.append(
                f"phase {phase.index} was ended with {sum(self.counts)} of {self.plan.cost} "
                "rewards, and with noise that is wider in proportion"
            )
        remarks += [
            f"arm {self.labels[arm]!r} was withdrawn with {count} of {pulls} rewards in phase "
            f"{phase.index}: each missing one counts as the middle of the range"
            for arm, pulls, _, count in rows
            if count < pulls
        ]
        before = [value for one in self.finished for value in one.statistic]
        statistics = np.array([[*(before if phase.remembered else ()), *release.statistic]])
        active, pulled, stay = (
            tuple(self.labels[arm] for arm in arms)
            for arms in (phase.active, phase.pulled, self._survivors(phase, statistics))
        )
        released = Released(
            **{**vars(release), "remarks": tuple(remarks)},
            phase=phase.index,
            active=active,
            pulled=pulled,
            pulls=self.counts,
            estimates=tuple(self.reward_range.shown(phase.estimates(statistics)[0]).tolist()),
            survivors=stay,
        )
        return replace(self, finished=(*self.finished, released), past=(*self.past, phase))

    def _survivors(self, phase: Phase, statistics: FloatArray) -> list[int]:
        """Return the surviving arms, increasing: one that was withdrawn only if all others are.

        This reads public data: what was released, and which arms were withdrawn.
        """
        # Ties are broken at random, reproducibly if the noise has a seed.
        chance = np.random.default_rng()
        if isinstance(self.noise, NumpyNoise):
            chance = self.noise.generator(phase.index, 1)
        out = np.array([self.labels[arm] in self.withdrawn for arm in phase.active])
        kept: list[int] = []
        for places in (np.flatnonzero(~out), np.flatnonzero(out)):
            if keep := min(phase.keep - len(kept), len(places)):
                ranking = Ranking(phase.decoder[places], phase.reach, keep)
                kept += places[ranking.survivors(statistics, chance)[:, 0]].tolist()
        return [phase.active[place] for place in sorted(kept)]
