"""What a run does from one state to the next: it begins phases, takes sums, releases.

A `Run` keeps no state, no file and no lock: a `dpbai.Session` does, and decides what is saved and
what is shown. Each step is a function from state to state, and noise is drawn in one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from dpbai.policies import Phase, Policy
from dpbai.policies.phase import planned
from dpbai.privacy.certificate import Certificate, certificate, certify
from dpbai.session.noise import NumpyNoise, ReleaseNoise
from dpbai.session.records import Label, Released, SessionError, State, named
from dpbai.session.rewards import Range, Sum
from dpbai.session.shorter import shortened
from dpbai.session.single import noisy_release


@dataclass(frozen=True, eq=False)
class Run:
    """A policy with what it needs to meet real rewards."""

    policy: Policy
    noise: ReleaseNoise
    labels: tuple[Label, ...]
    reward_range: Range

    @cached_property
    def promised(self) -> Certificate:
        """The guarantee of all that the run may release."""
        return certificate(self.policy, mechanism=self.noise)

    @cached_property
    def _arm_of(self) -> dict[Label, int]:
        return {label: arm for arm, label in enumerate(self.labels)}

    def with_rewards(self, state: State, parts: Sequence[tuple[Any, Sum]], sign: int) -> State:
        """Return the state with more rewards, or without some."""
        phase = state.plan
        sums, counts = list(state.sums), list(state.counts)
        for label, (total, count) in parts:
            # A label that is unknown is not repeated: it may be a reward in the wrong place.
            name = named(label)
            arm = None if name is None else self._arm_of.get(name)
            if arm is None or arm not in phase.pulled:
                raise ValueError("rewards must be of arms that are asked for, see requests")
            position = phase.pulled.index(arm)
            missing, received = phase.pulls[position] - counts[position], counts[position]
            if sign > 0 and count > missing:
                raise ValueError(f"arm {label!r} needs {missing} more rewards, got {count}")
            if sign < 0 and not 0 <= sums[position] - total <= received - count:
                raise ValueError(f"arm {label!r} has not had these rewards in this phase")
            sums[position] += sign * total
            counts[position] += sign * count
        return replace(state, sums=tuple(sums), counts=tuple(counts))

    def started(
        self,
        finished: tuple[Released, ...],
        past: tuple[Phase, ...],
        batches: Mapping[str, int],
    ) -> State:
        """Return the state in which the phase after the `finished` ones begins."""
        active = finished[-1].survivors if finished else self.labels
        if len(active) == 1:
            return State(finished, past, None, (), (), batches)
        arms = [self._arm_of[label] for label in active]
        spent = sum(phase.cost for phase in past)
        phase = planned(self.policy, len(finished) + 1, arms, spent=spent, past=past)
        if phase.remembered and phase.remembered != len(_statistics(finished)):
            raise ValueError("what its phases have released does not fit their plans")
        zeros = (0,) * len(phase.pulled)
        return State(finished, past, phase, tuple(map(Fraction, zeros)), zeros, batches)

    def advanced(self, state: State) -> State:
        """Release the phase under way if it is complete, and so on."""
        while state.phase is not None and state.counts == state.phase.pulls:
            state = self._after(state, state.phase)
        return state

    def ended(self, state: State) -> State:
        """Release the phase under way with the rewards that came in, and so on."""
        phase = state.plan
        if not all(state.counts):
            arm = self.labels[phase.pulled[state.counts.index(0)]]
            raise SessionError(f"each arm needs one reward at least, and {arm!r} has none")
        return self.advanced(self._after(state, shortened(phase, state.counts)))

    def replayed(self, finished: Sequence[Released], batches: Mapping[str, int]) -> State:
        """Return the state after what was released before."""
        state = self.started((), (), batches)
        for released in finished:
            executed = shortened(state.plan, released.pulls)
            state = self.started((*state.finished, released), (*state.past, executed), batches)
        return state

    def _after(self, state: State, executed: Phase) -> State:
        """Release the phase under way, as it was executed, and begin the next."""
        finished = (*state.finished, self._release(state, executed))
        return self.started(finished, (*state.past, executed), state.batches)

    def _release(self, state: State, phase: Phase) -> Released:
        if not self.promised.covers(certify([phase], mechanism=self.noise)):
            raise SessionError(
                f"the plan of phase {phase.index} loses more than all plans that the guarantee was "
                "computed from; a policy must plan the same phase for the same active set each time"
            )
        remarks: tuple[str, ...] = ()
        if phase is not state.phase:
            remarks = (
                f"phase {phase.index} was ended with {phase.cost} of {state.plan.cost} rewards, "
                "and with noise that is wider in proportion",
            )
        release = noisy_release(phase, state.sums, self.noise, phase.index)
        before = _statistics(state.finished) if phase.remembered else []
        released = np.array([[*before, *release.statistic]])
        survivors = phase.survivors(released, _tie_breaker(self.noise, phase.index))
        low, high = self.reward_range
        names = self.labels
        return Released(
            **{**vars(release), "remarks": release.remarks + remarks},
            phase=phase.index,
            active=tuple(names[arm] for arm in phase.active),
            pulled=tuple(names[arm] for arm in phase.pulled),
            pulls=phase.pulls,
            estimates=tuple((low + (high - low) * phase.estimates(released)[0]).tolist()),
            survivors=tuple(names[arm] for arm in survivors[0].tolist()),
        )


def _statistics(finished: Sequence[Released]) -> list[float]:
    """Return all that phases released, oldest first."""
    return [value for released in finished for value in released.statistic]


def _tie_breaker(source: ReleaseNoise, phase: int) -> np.random.Generator:
    """Return what breaks ties in a phase: chance that nobody knows, unless the source is seeded."""
    if isinstance(source, NumpyNoise):
        return source.generator(phase, 1)
    return np.random.default_rng()
