"""The guarantee that follows from the plans alone.

One reward moves the release of one phase, by `Phase.shifts`; what its noise makes of that is the
loss of the phase. Later phases see nothing of the reward but the surviving arms, and use rewards of
their own. So the losses of phases do not add up: the largest is the loss of the run. This holds for
the whole transcript (the release of every phase), hence for all that is computed from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from dpbai import _check
from dpbai.noise import Noise
from dpbai.policies import Phase, Policy
from dpbai.policies.phase import arms_of
from dpbai.privacy.plans import reachable, representable

NEIGHBOURS = ("reward", "time step", "pull index")


@dataclass(frozen=True)
class Certificate:
    """An (epsilon, delta) that a run satisfies for neighbouring reward tables.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee; delta is 0 for Laplace noise.
    losses : tuple of float
        The largest epsilon of each phase, phase 1 first; `epsilon` is the largest of them.
    neighbours : {"reward", "time step", "pull index"}
        What neighbouring tables differ in, see `certificate`.
    group : int
        In how many of these.
    reward_bound : float
        Rewards lie in [0, reward_bound].
    complete : bool
        Whether every plan that the policy can come to is covered. If not, the guarantee is one of
        the plans that were looked at.
    """

    epsilon: float
    delta: float
    losses: tuple[float, ...]
    neighbours: str
    group: int
    reward_bound: float
    complete: bool
    _changes: tuple[tuple[Noise, tuple[float, ...]], ...] = field(repr=False)

    def __str__(self) -> str:
        losses = ", ".join(f"{loss:.6g}" for loss in self.losses)
        changed = self.neighbours if self.group == 1 else f"{self.group} of them: {self.neighbours}"
        text = (
            f"epsilon = {self.epsilon:.6g}, delta = {self.delta:.6g} for each {changed}, rewards "
            f"in [0, {self.reward_bound:g}] (epsilon of each phase: {losses or 'none'})"
        )
        return text if self.complete else f"{text}; of the plans looked at, not of all"

    def delta_at(self, epsilon: float) -> float:
        """Return a delta for which the run is (epsilon, delta)-private at another `epsilon` >= 0.

        Exact for Gaussian noise, as a statement on the releases; see `Laplace.delta_at`.

        Raises
        ------
        ValueError
            If `epsilon` is negative or NaN.
        """
        epsilon = _check.loss(epsilon)
        return max((noise.delta_at(epsilon, shift) for noise, shift in self._changes), default=0.0)


def certificate(
    policy: Policy,
    *,
    neighbours: str = "reward",
    group: int = 1,
    reward_bound: float = 1.0,
    limit: int = 500,
) -> Certificate:
    """Return the privacy guarantee of `policy`, from its plans.

    Parameters
    ----------
    policy : Policy
        Its plans are enumerated over all active sets that can survive; policies that can list what
        they release (`representatives`) need no enumeration.
    neighbours : {"reward", "time step", "pull index"}
        "reward": tables differ in one reward x_{i,n} (Definition 2.1). "time step": in the rewards
        of all arms at one time, for the dual decision maker (table-DP); it reads one of them, so
        this costs no more. "pull index": in the n-th reward of every arm, each of which may be
        read.
    group : int, default 1
        Tables may differ in so many of these. Group privacy: k epsilon for Laplace noise, k times
        the shift for Gaussian noise.
    reward_bound : float, default 1
        Rewards lie in [0, reward_bound], as `Instance.reward_bound` tells.
    limit : int, default 500
        Enumerate up to so many active sets in a phase; above, so many are drawn, and the
        certificate is marked as not `complete`.

    Returns
    -------
    Certificate

    Raises
    ------
    ValueError
        If an argument is out of range, or a plan is not the one asked for or overspends.

    Notes
    -----
    For groups and pull indices the changed rewards may fall in different phases, depending on the
    survivors. Pure losses then add along any path; shifts of Gaussian noise add in squares, also
    when chosen adaptively (Smith and Thakurta, 2022).
    """
    _check.whole(limit, "limit")
    plans, complete = reachable(policy, 1 if representable(policy) else limit)
    if representable(policy):
        complete = True
        for index, phases in enumerate(plans, start=1):
            phases.extend(policy.representatives(index))
    return _certificate(plans, arms_of(policy), neighbours, group, reward_bound, complete)


def certify(
    phases: Iterable[Phase],
    *,
    neighbours: str = "reward",
    group: int = 1,
    reward_bound: float = 1.0,
) -> Certificate:
    """Return the guarantee of given plans, such as those that a run has visited.

    It is not `complete`: what a run visits depends on its rewards, so it does not bound what the
    policy might have released instead. Parameters are those of `certificate`.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    visited = [_check.kind(phase, "phases", Phase) for phase in _check.sequence(phases, "phases")]
    last = max((phase.index for phase in visited), default=0)
    plans = [[phase for phase in visited if phase.index == p] for p in range(1, last + 1)]
    arms = len({arm for phase in visited for arm in phase.pulled})
    return _certificate(plans, arms, neighbours, group, reward_bound, complete=False)


def _certificate(
    plans: list[list[Phase]],
    arms: int,
    neighbours: str,
    group: int,
    reward_bound: float,
    complete: bool,
) -> Certificate:
    _check.choice(neighbours, "neighbours", NEIGHBOURS)
    _check.whole(group, "group")
    if not 0 < _check.number(reward_bound, "reward_bound") < math.inf:
        raise ValueError(f"reward_bound must be positive and finite, got {reward_bound}")
    copies = 1
    if neighbours == "pull index":
        # A run pulls no more arms than this, and reads the n-th reward of each at most once.
        pulled = sum(max((len(phase.pulled) for phase in phases), default=0) for phases in plans)
        copies = min(arms, pulled)
    dearer = copies > 1 or group > 1
    if dearer and len({type(phase.noise) for phases in plans for phase in phases}) > 1:
        raise ValueError("more than one reward can be accounted for one kind of noise only")
    changes = [
        {
            (phase.noise, change): None
            for phase in phases
            for change in _changes(phase, copies, group * float(reward_bound))
        }
        for phases in plans
    ]
    losses = tuple(
        max((noise.loss(shift) for noise, shift in phase_changes), default=0.0)
        for phase_changes in changes
    )
    return Certificate(
        epsilon=max(losses, default=0.0),
        delta=max((noise.delta for found in changes for noise, _ in found), default=0.0),
        losses=losses,
        neighbours=neighbours,
        group=group,
        reward_bound=float(reward_bound),
        complete=complete,
        _changes=tuple(change for found in changes for change in found),
    )


def _changes(phase: Phase, copies: int, factor: float) -> set[tuple[float, ...]]:
    """Return the distinct changes of the release that hide in the noise, for one phase.

    The arms of an identity release move a coordinate each: several of them make one longer vector.
    Those of another release may all move the same coordinates, at worst in the same direction.
    """
    if phase.release_matrix is None:
        return {(factor / pulls,) * copies for pulls in set(phase.pulls)}
    return {tuple((factor * copies * shift).tolist()) for shift in phase.shifts}
