"""The privacy guarantee of a policy or a session, computed from its plans alone.

One reward moves the release of one phase by at most `Phase.shifts`, and the law of the noise turns
this shift into the loss of the phase. Later phases use other rewards, and depend on this one
through that release only. So the losses of phases do not add up: the loss of the run is the largest
of them. It holds for all releases together, hence for everything computed from them.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest

import numpy as np

from dpbai import _check
from dpbai._describe import rounded_up
from dpbai.noise import LAWS, Mechanism, Noise, Shift
from dpbai.phase import Phase, Policy, declared
from dpbai.plans import covering

NEIGHBOURS = ("reward", "time step", "pull index")
_LINE = 80  # characters
_ROUNDING = 1e-9  # a relative difference below it is rounding


@dataclass(frozen=True)
class Certificate:
    """An (epsilon, delta) that a run satisfies for neighbouring reward tables.

    It covers every plan that a run may execute. Which plans a run does execute depends on the
    rewards, so the losses of these plans alone are no guarantee.

    Attributes
    ----------
    losses : tuple of float
        The largest epsilon of each phase, phase 1 first, as `mechanism` computes it.
    delta : float
        The largest delta of a phase; 0 for Laplace noise.
    planned_epsilon : float
        The largest epsilon if the noise were drawn as real numbers.
    mechanism : str or None
        Name of the mechanism that draws the noise; None stands for real numbers.
    neighbours : {"reward", "time step", "pull index"}
        What neighbouring tables differ in, see `certificate`.
    group : int
        How many of these may differ.
    reward_bound : float
        Rewards lie in [0, reward_bound].
    complete : bool
        Whether all plans that a run may execute are covered.
    notes : tuple of str
        Caveats of the mechanism, and of noise of a class outside this library.
    released : int or None
        In a session, how many phases have been released so far.
    """

    losses: tuple[float, ...]
    delta: float
    planned_epsilon: float
    mechanism: str | None
    neighbours: str
    group: int
    reward_bound: float
    complete: bool
    notes: tuple[str, ...] = ()
    released: int | None = None
    _changes: tuple[tuple[Noise, Shift], ...] = field(default=(), repr=False)

    @property
    def epsilon(self) -> float:
        """The guarantee, together with `delta`: the largest of `losses`."""
        return max(self.losses, default=0.0)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Caveats of the guarantee: `notes`, and what follows from the other attributes."""
        remarks = list(self.notes)
        if math.isinf(self.epsilon):
            remarks.append("a phase has no noise, so the run is not private")
        if not self.complete:
            remarks.append("a run may have other plans; epsilon is the largest of those examined")
        return tuple(dict.fromkeys(remarks))

    def __str__(self) -> str:
        by = self.neighbours if self.group == 1 else f"group of {self.group} ({self.neighbours})"
        bound = "" if self.reward_bound == 1 else f" Rewards lie in [0, {self.reward_bound:g}]."
        paragraphs = [
            f"For one {by}: epsilon = {rounded_up(self.epsilon)}, "
            f"delta = {rounded_up(self.delta)}, for all releases together, past and future."
            f"{bound}",
            "Rewards and noise are treated as real numbers."
            if self.mechanism is None
            else f"Noise is drawn by {self.mechanism}, which computes this epsilon; in real "
            f"numbers it would be {rounded_up(self.planned_epsilon)}.",
        ]
        if min(self.losses, default=0.0) < self.epsilon * (1 - _ROUNDING):
            paragraphs.append(f"Epsilon of each phase: {', '.join(map(rounded_up, self.losses))}.")
        if self.released is not None:
            paragraphs.append(f"Phases released so far: {self.released}.")
        paragraphs += [f"Note: {remark}." for remark in self.remarks]
        return "\n".join(textwrap.fill(text, _LINE, subsequent_indent="  ") for text in paragraphs)

    def delta_at(self, epsilon: float) -> float:
        """Return a delta for which the run is (epsilon, delta)-private at another `epsilon` >= 0.

        It is that of noise in real numbers, and exact for Gaussian noise; see also
        `Laplace.delta_at`.
        """
        epsilon = _check.non_negative(epsilon, "epsilon")
        return max((noise.delta_at(epsilon, shift) for noise, shift in self._changes), default=0.0)

    def covers(self, visited: Certificate) -> bool:
        """Return True unless this guarantee is complete and `visited` loses more."""
        pairs = zip_longest(visited.losses, self.losses, fillvalue=0.0)
        larger = any(lost > covered * (1 + _ROUNDING) for lost, covered in pairs)
        return not self.complete or not (larger or visited.delta > self.delta)

    def after(
        self, visited: Certificate, losses: Sequence[float], notes: Iterable[str]
    ) -> Certificate:
        """Return a certificate that also covers visited plans, whose releases had `losses`."""
        lost = zip_longest(self.losses, visited.losses, losses, fillvalue=0.0)
        return replace(
            self,
            losses=tuple(map(max, lost)),
            delta=max(self.delta, visited.delta),
            planned_epsilon=max(self.planned_epsilon, visited.planned_epsilon),
            notes=(*self.notes, *notes),
            released=len(losses),
            _changes=(*self._changes, *visited._changes),
        )


def certificate(
    policy: Policy,
    *,
    neighbours: str = "reward",
    group: int = 1,
    reward_bound: float = 1.0,
    limit: int = 500,
    mechanism: Mechanism | None = None,
) -> Certificate:
    """Return the privacy guarantee of `policy`, from its plans.

    Parameters
    ----------
    policy : Policy
        Its plans are enumerated over all active sets that can survive. Policies of this library
        that list `representatives` of their plans, such as `DPBAI` and `DPDesign`, need not be
        enumerated.
    neighbours : {"reward", "time step", "pull index"}
        "reward": tables differ in one reward x_{i,n} (Definition 2.1). "time step": in the rewards
        of all arms at one time, of which the dual decision maker reads one (table-DP). "pull
        index": in the n-th reward of every arm, each of which may be read.
    group : int, default 1
        k, how many of these may differ (group privacy). The loss is k epsilon for Laplace noise,
        and that of k times the shift for Gaussian noise.
    reward_bound : float, default 1
        Rewards lie in [0, reward_bound], as in `Instance.reward_bound`.
    limit : int, default 500
        The largest number of active sets of a phase that are enumerated. If a phase has more, this
        number of them is drawn at random, and the certificate is not `complete`.
    mechanism : Mechanism, optional
        What draws the noise in a computer, such as `OpenDPNoise`. The losses are the mechanism's,
        for a statistic that is rounded once to doubles, as in a `Session`, and rounded up. By
        default all numbers are real, and losses are exact except for rounding errors.

    Raises
    ------
    ValueError
        If an argument is out of range; a plan is for another phase, exceeds the budget, or changes
        when it is computed again; or the loss of several rewards is not known for the noise.
    TypeError
        If the mechanism cannot draw the noise of a plan.

    Notes
    -----
    For groups and pull indices, the changed rewards may fall in different phases, which depend on
    the survivors. Pure losses then add up along any path, and for Gaussian noise the squares of
    shifts do, even if these are chosen adaptively (Smith and Thakurta, 2022). This is proved for
    these laws only: with heavy-tailed noise, two rewards in two phases can lose more than two in
    one.
    """
    plans, complete = covering(policy, _check.whole(limit, "limit"))
    arms = max((len(phase.active) for phase in chain.from_iterable(plans)), default=1)
    return _certificate(plans, arms, neighbours, group, reward_bound, complete, mechanism)


def certify(
    phases: Iterable[Phase],
    *,
    neighbours: str = "reward",
    group: int = 1,
    reward_bound: float = 1.0,
    mechanism: Mechanism | None = None,
) -> Certificate:
    """Return the guarantee of given plans, such as those that a run has visited.

    It is not `complete`: which plans a run visits depends on its rewards. Parameters and exceptions
    are those of `certificate`.
    """
    given = _check.sequence(phases, "phases")
    visited = [declared(_check.kind(phase, "phases", Phase)) for phase in given]
    if not visited:
        raise ValueError("phases must hold at least one plan")
    last = max(phase.index for phase in visited)
    plans = [[phase for phase in visited if phase.index == p] for p in range(1, last + 1)]
    arms = len({arm for phase in visited for arm in phase.pulled})
    return _certificate(plans, arms, neighbours, group, reward_bound, False, mechanism)


def _certificate(
    plans: list[list[Phase]],
    arms: int,
    neighbours: str,
    group: int,
    reward_bound: float,
    complete: bool,
    mechanism: Mechanism | None,
) -> Certificate:
    _check.one_of(neighbours, "neighbours", NEIGHBOURS)
    _check.whole(group, "group")
    reward_bound = _check.positive(reward_bound, "reward_bound")
    if mechanism is not None:
        _check.kind(mechanism, "mechanism", Mechanism)
    copies = 1
    if neighbours == "pull index":
        # The most arms that a run pulls; it reads the n-th reward of each at most once.
        pulled = sum(max((len(phase.pulled) for phase in phases), default=0) for phases in plans)
        copies = min(arms, pulled)
    laws = {type(phase.noise) for phase in chain.from_iterable(plans)}
    foreign = sorted(law.__name__ for law in laws.difference(LAWS))
    if (copies > 1 or group > 1) and (foreign or len(laws) > 1):
        raise ValueError(
            "the loss of several rewards is known only if all noise is Laplace or all is Gaussian, "
            f"got {' and '.join(sorted(law.__name__ for law in laws))}: use group=1, and "
            "neighbours='reward' or 'time step'"
        )
    losses, planned = [0.0] * len(plans), 0.0
    changes: dict[tuple[Noise, Shift], None] = {}
    for index, phases in enumerate(plans):
        shifts = {shift for p in phases for shift in _shifts(p, copies, group, reward_bound)}
        for noise, delta, shift, rounded in shifts:
            loss = noise.loss(shift, delta)
            planned = max(planned, loss)
            realized = loss if mechanism is None else mechanism.loss(noise, rounded, delta)
            losses[index] = max(losses[index], realized)
            changes[noise, shift] = None
    remarks = () if mechanism is None else mechanism.remarks
    return Certificate(
        losses=tuple(losses),
        delta=max((phase.delta for phase in chain.from_iterable(plans)), default=0.0),
        planned_epsilon=planned,
        mechanism=None if mechanism is None else mechanism.name,
        neighbours=neighbours,
        group=group,
        reward_bound=reward_bound,
        complete=complete,
        notes=(
            *remarks,
            *(f"the loss of {law} noise is the one that its class states" for law in foreign),
        ),
        _changes=tuple(changes),
    )


def _shifts(
    phase: Phase, copies: int, group: int, reward_bound: float
) -> Iterator[tuple[Noise, float, Shift, Shift]]:
    """Yield noise, delta, and the shift of a statistic in real numbers and of one in doubles.

    If the release is the identity, each arm shifts a coordinate of its own, so the shift of several
    arms is a longer vector. Otherwise all arms may shift the same coordinates, at worst in the same
    direction. Rounding a statistic to doubles, before the change of a reward and after it, changes
    each coordinate by at most half a unit in the last place.
    """
    factor, matrix = group * reward_bound, phase.release_matrix
    if matrix is None:
        shifts, largest = phase.shifts(factor), np.ones(1)
    else:
        shifts, largest = phase.shifts(factor * copies), np.abs(matrix).sum(axis=1)
        copies = 1
    with np.errstate(over="ignore", invalid="ignore"):
        units = np.spacing(largest * reward_bound * (1 + _ROUNDING))
        for shift in {id(shift): shift for shift in shifts}.values():
            exact = np.nextafter(np.nextafter(shift, math.inf), math.inf)  # two roundings
            rounded = np.nan_to_num(np.nextafter(exact + units, math.inf), nan=math.inf)
            in_doubles = np.where(shift > 0, rounded, 0.0)
            real, stored = (tuple(sizes.tolist()) * copies for sizes in (shift, in_doubles))
            yield phase.noise, phase.delta, real, stored
