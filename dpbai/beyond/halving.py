"""DP-Halving, a private policy that is not in the paper, and a bound on its error.

DP-Halving is OD-LinBAI with noise on the sum of each arm's rewards. DP-OD adds noise to the moment
vector instead. One reward changes one sum by at most 1, but the moment vector by a feature vector.
A phase from s arms of rank r to k arms, with m pulls before rounding up, drops the best arm with
probability at most

    (s - k) (4/3)^min(s, r(r+1)/2) exp(-m min(Delta^2 / (2r), epsilon Delta / (8r))),

where Delta = Delta_(k+1). The reason is that a G-optimal design has largest variance r (Kiefer and
Wolfowitz), so that a released sum has a weight of at most 2r/m in any difference of two estimates.
To allow for rounding errors in designs and pulls, m is reduced by a millionth (`_ROUNDED`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from dpbai import _check
from dpbai.beyond.private import every_sum, laplace
from dpbai.instance import Instance, check_one_best
from dpbai.noise import exp_bound
from dpbai.phase import Phase
from dpbai.policies import ODLinBAI
from dpbai.scaling import Span
from dpbai.upper import check_match

# The largest variance of a computed design can exceed the rank by a relative 1e-8. An arm's pulls,
# at least one, can fall short of its share of m by a relative 1e-6.
_ROUNDED = 1 / (1 + 1e-8) / (1 + 1e-6)


@dataclass(frozen=True, eq=False)
class DPHalving(ODLinBAI):
    """DP-Halving: OD-LinBAI with Lap(1/epsilon) on the sum of each arm's rewards; epsilon-private.

    `features` and `budget` are those of `ODLinBAI`.

    Parameters
    ----------
    epsilon : float
        Privacy parameter, positive; infinity means no noise.
    """

    _: KW_ONLY
    epsilon: float

    def __post_init__(self) -> None:
        vars(self)["epsilon"] = _check.epsilon(self.epsilon)
        super().__post_init__()

    @cached_property
    def dimension(self) -> int:
        """The rank of the features, at least 1."""
        return max(1, Span(self.features).rank)

    def phase(self, index: int, active: Sequence[int]) -> Phase:
        """Return the plan of phase `index` for `active`, as many arms as that phase has."""
        plan = super().phase(index, active)
        pulls = np.array(plan.pulls, dtype=np.float64)
        return replace(
            plan,
            noise=laplace(self.epsilon),
            release_matrix=np.diag(pulls),
            decoder_matrix=plan.decoder @ (plan.release / pulls),
        )

    def representatives(self, index: int) -> tuple[Phase, ...]:
        """Return a plan whose privacy loss bounds that of every plan of phase `index`."""
        return (every_sum(index, self.sizes, math.ceil(self.pulls_per_phase), self.epsilon),)

    def error_bound(self, instance: Instance) -> float:
        """Return the value of `halving_bound`."""
        return halving_bound(self, instance).value


@dataclass(frozen=True)
class HalvingBound:
    """An upper bound on the error of DP-Halving.

    Attributes
    ----------
    value : float
        The bound, a sum over phases; it can exceed 1.
    exponent : float
        The smallest exponent of a phase, proportional to `DPHalving.pulls_per_phase`.
    """

    value: float
    exponent: float


def halving_bound(policy: DPHalving, instance: Instance) -> HalvingBound:
    """Bound the error probability of DP-Halving, for every T.

    Parameters
    ----------
    policy : DPHalving
    instance : Instance
        With the policy's features, linear means, one best arm and rewards in [0, 1].
    """
    if type(policy) is not DPHalving:  # a subclass may have other noise
        raise TypeError(f"policy must be DPHalving itself, got {type(policy).__name__}")
    check_match(policy, instance, linear=True)
    check_one_best(instance)
    gaps, pulls = np.sort(instance.gaps), float(policy.pulls_per_phase) * _ROUNDED
    value, exponents = 0.0, []
    for size, keep in pairwise(policy.sizes):
        if keep < size:
            rank, gap = min(policy.dimension, size), float(gaps[keep])
            spread = 2 * rank
            exponents.append(pulls * min(gap * gap, policy.epsilon * gap / 4) / spread)
            sums = 0 if math.isinf(policy.epsilon) else min(size, rank * (rank + 1) // 2)
            value += (size - keep) * (4 / 3) ** sums * exp_bound(-exponents[-1])
    return HalvingBound(value, min(exponents))
