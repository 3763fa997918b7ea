"""The state of a run, and its steps: record sums, release a phase, begin the next one.

A `Run` does not change: each step returns the next one, which a `dpbai.Session` saves and shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any, Self

import numpy as np

from dpbai._check import FloatArray
from dpbai.certificate import Certificate, certificate, certify
from dpbai.field.session.records import (
    Batch,
    Label,
    Released,
    SessionError,
    checked_labels,
    checked_name,
    named,
)
from dpbai.field.session.releases import NumpyNoise, noisy_release, shortened
from dpbai.field.session.rewards import Range, Sum, checked_range
from dpbai.noise import Mechanism
from dpbai.phase import Phase, Policy
from dpbai.plans import Stage, arms_of

_NOTHING: Sum = (Fraction(), 0)


@dataclass(frozen=True, eq=False)
class Run:
    """The state of a policy on real rewards.

    `promised` computes the guarantee of all plans that the policy may make on this machine, and
    `stated` is the guarantee that was given when the run began. `phase` is the current plan, None
    when one arm is left. `totals` has the sum and count of the rewards of each arm that it pulls,
    and `sums` the parts of these sums that were recorded in each batch of this phase.
    """

    policy: Policy
    noise: Mechanism
    labels: tuple[Label, ...]
    reward_range: Range
    population: str | None
    promised: Callable[..., Certificate]
    stated: Certificate
    withdrawn: tuple[Label, ...] = ()
    batches: Mapping[str, Batch] = field(default_factory=dict)
    finished: tuple[Released, ...] = ()
    phase: Phase | None = None
    totals: Mapping[Label, Sum] = field(default_factory=dict)
    sums: Mapping[str, Mapping[Label, Fraction]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        policy: Policy,
        noise: Mechanism,
        labels: Sequence[Label] | None,
        bounds: Any,
        population: Any,
        stated: Certificate | None = None,
    ) -> Self:
        """Return a run before its first phase; ValueError or TypeError if an argument is wrong."""
        arms = arms_of(policy)
        names = checked_labels(range(arms) if labels is None else labels, arms)
        bounds = checked_range(bounds)
        people = None if population is None else checked_name(population, "population")
        promised = cache(partial(certificate, policy, mechanism=noise))
        stated = stated or replace(promised(group=1), _changes=())
        return cls(policy, noise, names, bounds, people, promised, stated)

    @property
    def past(self) -> tuple[Phase, ...]:
        """The plans of the finished phases."""
        return tuple(released.plan for released in self.finished)

    @property
    def plan(self) -> Phase:
        """The current plan; SessionError if one arm is left."""
        if self.phase is None:
            raise SessionError("the session is finished and takes no more rewards")
        return self.phase

    @property
    def requests(self) -> dict[Label, int]:
        """Number of missing rewards of each arm in the current phase; empty at the end."""
        if self.phase is None:
            return {}
        return {
            arm: pulls - count
            for (arm, (_, count)), pulls in zip(self.totals.items(), self.phase.pulls, strict=True)
            if count < pulls and arm not in self.withdrawn
        }

    def with_rewards(self, given: Iterable[tuple[Any, Sum]], batch: Label | None) -> Self:
        """Return the run with more rewards."""
        plan, totals = self.plan, dict(self.totals)
        name = "" if batch is None else checked_name(batch, "batch")
        if name in self.batches:
            raise SessionError(
                f"batch {name!r} was recorded already, in phase {self.batches[name].phase}"
            )
        pulls = dict(zip(totals, plan.pulls, strict=True))
        part: dict[Label, Sum] = {}
        for label, more in given:
            # An unknown label is not quoted: it may be a reward in the wrong place.
            if (arm := named(label)) is None or arm not in totals or arm in self.withdrawn:
                raise ValueError(
                    "rewards must be of arms that are requested now: see `Session.requests` or "
                    "`dpbai next`"
                )
            # Nor is the count: it may be interchanged with the sum.
            if more[1] > (missing := pulls[arm] - totals[arm][1]):
                raise ValueError(
                    f"rewards of arm {arm!r} must be at most {missing} more: see `Session.requests`"
                )
            totals[arm] = _sum(totals[arm], more)
            part[arm] = _sum(part.get(arm, _NOTHING), more)
        run = replace(self, totals=totals)
        if not name:
            return run
        recorded = Batch(plan.index, {arm: count for arm, (_, count) in part.items()})
        sums = {arm: total for arm, (total, _) in part.items()}
        return replace(
            run, batches={**self.batches, name: recorded}, sums={**self.sums, name: sums}
        )

    def rest(self, batches: Iterable[str]) -> dict[Label, Sum]:
        """Return the totals without the rewards of some batches of the current phase."""
        rest = dict(self.totals)
        for name in batches:
            for arm, part in self.sums[name].items():
                total, count = rest[arm]
                rest[arm] = total - part, count - self.batches[name].counts[arm]
        return rest

    def without(self, batch: Label) -> Self:
        """Return the run without the rewards of a batch of the current phase."""
        name = checked_name(batch, "batch")
        if name not in self.batches:
            names = ", ".join(map(repr, self.batches)) or "none"
            raise SessionError(f"there is no batch of this name; the batches are: {names}")
        if name not in self.sums:
            raise SessionError(
                f"batch {name!r} cannot be undone: it is in phase {self.batches[name].phase}, "
                "which has been released"
            )
        batches, sums = dict(self.batches), dict(self.sums)
        del batches[name], sums[name]
        return replace(self, totals=self.rest([name]), batches=batches, sums=sums)

    def withdrawing(self, label: Label) -> Self:
        """Return the run after an arm is withdrawn."""
        name, plan = named(label), self.plan
        active, pulled = (
            set(self.names_of(arms)) - set(self.withdrawn) for arms in (plan.active, plan.pulled)
        )
        if name is None or name not in active | pulled:
            raise SessionError(
                "only an arm that is in play or pulled in this phase can be withdrawn; withdraw "
                "another one only if a later phase asks for its rewards"
            )
        if name in active and len(active) < 3:
            raise SessionError("at least two arms must remain in play: this one is not withdrawn")
        return replace(self, withdrawn=(*self.withdrawn, name)).advanced()

    def advanced(self) -> Self:
        """Release the current phase if it is complete, begin the next one, and repeat."""
        run = self
        while run.phase is not None and not run.requests:
            run = run._released(run.phase)
        return run

    def ended(self) -> Self:
        """Release the current phase with the rewards recorded so far."""
        plan, missing, pulls = self.plan, self.requests, []
        for (arm, (_, count)), planned in zip(self.totals.items(), plan.pulls, strict=True):
            if not count and arm in missing:
                raise SessionError(
                    f"each arm needs at least one reward, and {arm!r} has none: withdraw this arm "
                    "if it cannot be pulled"
                )
            pulls.append(count if arm in missing else planned)
        return self._released(shortened(plan, pulls)).advanced()

    def next(self, plan: Phase | None = None) -> Self:
        """Return the run in its next phase, with a saved plan or the policy's.

        ValueError if the policy cannot have made the plan, SessionError if its privacy loss is
        larger than the stated guarantee.
        """
        active = self.finished[-1].survivors if self.finished else self.labels
        if self.finished and len(active) == 1 and plan is None:
            return replace(self, phase=None, totals={}, sums={})
        arm_of = {label: arm for arm, label in enumerate(self.labels)}
        stage = Stage(self.policy, tuple(arm_of[label] for label in active), self.past)
        if plan is not None:
            plan = stage.checked(plan)
        elif (plan := stage.phase).decoder_matrix is not None:
            # In C order, as read from a file, so that sums are rounded in the same way.
            plan = replace(plan, decoder_matrix=np.ascontiguousarray(plan.decoder_matrix))
        if not self.stated.covers(certify([plan], mechanism=self.noise)):
            raise SessionError(
                f"the plan of phase {plan.index} loses more privacy than the plans that the "
                "guarantee was computed from; a policy must plan the same phase for the same "
                "active set each time"
            )
        totals = dict.fromkeys(self.names_of(plan.pulled), _NOTHING)
        return replace(self, phase=plan, totals=totals, sums={})

    def names_of(self, arms: Iterable[int]) -> tuple[Label, ...]:
        """Return the labels of arms."""
        return tuple(self.labels[arm] for arm in arms)

    def _released(self, plan: Phase) -> Self:
        """Return the run after the release of the current plan, or of it with fewer pulls."""
        rows = [
            (arm, total, count, pulls)
            for (arm, (total, count)), pulls in zip(self.totals.items(), plan.pulls, strict=True)
        ]
        # Missing rewards of an arm that was withdrawn count as the middle of the range.
        sums = [total + Fraction(pulls - count, 2) for _, total, count, pulls in rows]
        release = noisy_release(plan, sums, self.noise, plan.index)
        remarks, counts = list(release.remarks), [count for _, _, count, _ in rows]
        if plan.pulls != self.plan.pulls:
            remarks.append(
                f"phase {plan.index} was ended with {sum(counts)} of {self.plan.cost} rewards, so "
                "its noise is wider in proportion"
            )
        remarks += [
            f"arm {arm!r} was withdrawn with {count} of {pulls} rewards in phase {plan.index}: "
            "each missing one counts as the middle of the range"
            for arm, _, count, pulls in rows
            if count < pulls
        ]
        before = [value for past in self.finished for value in past.statistic]
        statistics = np.array([[*(before if plan.remembered else ()), *release.statistic]])
        released = Released(
            **{**vars(release), "remarks": tuple(remarks)},
            phase=plan.index,
            active=self.names_of(plan.active),
            pulled=tuple(self.totals),
            pulls=tuple(counts),
            estimates=tuple(self.reward_range.shown(plan.estimates(statistics)[0]).tolist()),
            survivors=self.names_of(self._survivors(plan, statistics)),
            plan=plan,
        )
        return replace(self, finished=(*self.finished, released)).next()

    def _survivors(self, plan: Phase, statistics: FloatArray) -> list[int]:
        """Return the surviving arms, increasing; withdrawn arms survive only if all others do.

        This depends on public data only: what was released, and which arms were withdrawn.
        """
        # Ties are broken at random, reproducibly if the noise has a seed.
        rng = np.random.default_rng()
        if isinstance(self.noise, NumpyNoise):
            rng = self.noise.generator(plan.index, 1)
        withdrawn = np.array([label in self.withdrawn for label in self.names_of(plan.active)])
        kept: list[int] = []
        for places in (np.flatnonzero(~withdrawn), np.flatnonzero(withdrawn)):
            if keep := min(plan.keep - len(kept), len(places)):
                arms, decoder = np.array(plan.active)[places].tolist(), plan.decoder[places]
                part = replace(plan, active=tuple(arms), keep=keep, decoder_matrix=decoder)
                kept += part.survivors(statistics, rng)[0].tolist()
        return sorted(kept)


def _sum(one: Sum, other: Sum) -> Sum:
    return one[0] + other[0], one[1] + other[1]
