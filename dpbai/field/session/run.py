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

from dpbai._check import FloatArray
from dpbai.certificate import Certificate, certificate, certify
from dpbai.field.session.interval import Interval, half_widths
from dpbai.field.session.noise import NumpyNoise
from dpbai.field.session.phase import noise_deviations, noisy_release, shortened
from dpbai.field.session.records import (
    Batch,
    Label,
    Released,
    SessionError,
    checked_labels,
    checked_name,
    named,
)
from dpbai.field.session.rewards import UNIT, Range, Sum, checked_range
from dpbai.noise import Mechanism
from dpbai.phase import Phase, Policy
from dpbai.plans import Stage, arms_of
from dpbai.ranking import Ranking


@dataclass(frozen=True, eq=False)
class Run:
    """A policy on real rewards, as far as it has come.

    `stated` is the guarantee that was given when the run began; `promised` computes that of all
    that the policy may plan on this machine, once. `past` are the plans of the `finished` phases,
    as they were executed; `phase` is the one under way, None when one arm is left. `sums` and
    `counts` are of the rewards, mapped to [0, 1], that came in for each arm that it pulls.
    `batches` are those recorded, by name, and `parts` the sums by arm of those in the phase under
    way. `withdrawn` are arms that are asked for no more.
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

    # What a run shows.

    @property
    def plan(self) -> Phase:
        """The plan under way; SessionError if one arm is left."""
        if self.phase is None:
            raise SessionError("the session is finished and takes no more rewards")
        return self.phase

    @property
    def requests(self) -> dict[Label, int]:
        """How many rewards of which arms are missing in the phase under way; empty at the end."""
        if self.phase is None:
            return {}
        rows = zip(self.phase.pulled, self.phase.pulls, self.counts, strict=True)
        missing = {self.labels[arm]: pulls - count for arm, pulls, count in rows if pulls > count}
        return {label: n for label, n in missing.items() if label not in self.withdrawn}

    @property
    def recommendation(self) -> Label | None:
        """The arm that is left, or None as long as there are more."""
        return None if self.phase else self.finished[-1].survivors[0]

    @property
    def estimates(self) -> dict[Label, float]:
        """The private estimates of the means, each from the last finished phase that has one."""
        return {
            label: estimate
            for released in self.finished
            for label, estimate in zip(released.active, released.estimates, strict=True)
        }

    @property
    def deviations(self) -> dict[Label, float]:
        """The standard deviations of the noise in `estimates`, by the plans alone."""
        return {
            self.labels[arm]: float(deviation) * self.reward_range.width
            for number, phase in enumerate(self.past, start=1)
            for arm, deviation in zip(
                phase.active, noise_deviations(self.past[:number]), strict=True
            )
        }

    def certificate(self, group: int = 1) -> Certificate:
        """Return the guarantee, with what has to be said of the noise."""
        account = partial(certify, mechanism=self.noise, group=group)
        if group == 1:
            promised = self.promised().after(self.stated, (), ())
        else:
            promised = certificate(self.policy, mechanism=self.noise, group=group)
        notes = [remark for released in self.finished for remark in released.remarks]
        if self.reward_range != UNIT:
            notes.append(f"rewards lie in {self.reward_range}, and are mapped to {UNIT}")
        plans = [*self.past, *([self.phase] if self.phase else [])]
        lost = [released.epsilon for released in self.finished]
        return promised.after(account(plans), lost, notes)

    def interval(self, confidence: float) -> Interval:
        """Return where the mean of the recommended arm lies."""
        if self.recommendation is None:
            raise SessionError("the run is not finished: no arm is recommended yet")
        last = self.finished[-1]
        place, counts = last.active.index(self.recommendation), [p.pulls for p in self.finished]
        widths = half_widths(self.past, counts, self.policy.features, place, confidence)
        if widths is None:
            raise SessionError("this run released differences of means only, and tells no mean")
        noise, sampling = (self.reward_range.width * width for width in widths)
        estimate, reach = last.estimates[place], noise + sampling
        return Interval(estimate - reach, estimate + reach, noise, sampling, confidence)

    # Its steps.

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
            # A label that is unknown is not repeated: it may be a reward in the wrong place.
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
        """Return the run without the rewards of a batch of the phase under way."""
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
        """Return the run in which an arm is asked for no more."""
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
        """Release the phase under way if it is complete, and so on."""
        run = self
        while run.phase is not None and not run.requests:
            run = run._released(run.phase).next()
        return run

    def ended(self) -> Self:
        """Release the phase under way with the rewards that came in, and so on."""
        phase, missing = self.plan, self.requests
        pulls = []
        for arm, planned_pulls, count in zip(phase.pulled, phase.pulls, self.counts, strict=True):
            if not count and self.labels[arm] in missing:
                raise SessionError(
                    f"each arm needs one reward at least, and {self.labels[arm]!r} has none; one "
                    "that can give none can be withdrawn"
                )
            pulls.append(count if self.labels[arm] in missing else planned_pulls)
        return self._released(shortened(phase, pulls)).next().advanced()

    def next(self, plan: Phase | None = None) -> Self:
        """Return the run with the next phase under way: a plan that was saved, or the policy's.

        ValueError if the plan is none of the policy's, SessionError if it loses more than stated.
        """
        active = self.finished[-1].survivors if self.finished else self.labels
        if len(active) == 1 and plan is None:
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
                f"the plan of phase {plan.index} loses more than all plans that the guarantee was "
                "computed from; a policy must plan the same phase for the same active set each time"
            )
        pulled = len(plan.pulled)
        return replace(
            self, phase=plan, sums=(Fraction(),) * pulled, counts=(0,) * pulled, parts={}
        )

    def _released(self, phase: Phase) -> Self:
        """Return the run in which a plan was executed: the one under way, or with fewer pulls."""
        rows = list(zip(phase.pulled, phase.pulls, self.sums, self.counts, strict=True))
        # What is missing of an arm that was withdrawn counts as the middle of the range.
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
            f"{phase.index}: each that is missing counts as the middle of the range"
            for arm, pulls, _, count in rows
            if count < pulls
        ]
        before = [value for one in self.finished for value in one.statistic]
        known = np.array([[*(before if phase.remembered else ()), *release.statistic]])
        active, pulled, stay = (
            tuple(self.labels[arm] for arm in arms)
            for arms in (phase.active, phase.pulled, self._survivors(phase, known))
        )
        released = Released(
            **{**vars(release), "remarks": tuple(remarks)},
            phase=phase.index,
            active=active,
            pulled=pulled,
            pulls=self.counts,
            estimates=tuple(self.reward_range.shown(phase.estimates(known)[0]).tolist()),
            survivors=stay,
        )
        return replace(self, finished=(*self.finished, released), past=(*self.past, phase))

    def _survivors(self, phase: Phase, known: FloatArray) -> list[int]:
        """Return the arms that survive, increasing; of those withdrawn none, unless all others do.

        This reads what is public: what was released, and which arms were withdrawn.
        """
        # Chance that nobody knows breaks ties, unless the noise is from a seed.
        chance = np.random.default_rng()
        if isinstance(self.noise, NumpyNoise):
            chance = self.noise.generator(phase.index, 1)
        out = np.array([self.labels[arm] in self.withdrawn for arm in phase.active])
        kept: list[int] = []
        for places in (np.flatnonzero(~out), np.flatnonzero(out)):
            if keep := min(phase.keep - len(kept), len(places)):
                ranking = Ranking(phase.decoder[places], phase.reach, keep)
                some, survive = ranking.survivors(known, chance)
                kept += places[some[survive[:, 0]]].tolist()
        return [phase.active[place] for place in sorted(kept)]
