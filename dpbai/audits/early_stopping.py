"""Early stopping (Sec. 4.3), and a private policy as an example.

`dpbai.audits.pull` computes the exact probabilities of all outputs of a policy. With these, Lemma
4.3, its corollary, and the change of measure can be checked for tiny budgets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.audits.pull import History, Output, PullPolicy


@dataclass(frozen=True)
class WinStay:
    """Win-stay, lose-shift by randomized response; epsilon-private for rewards in [0, 1].

    After a reward x the policy pulls the same arm again with probability (1 + (e^epsilon - 1) x) /
    (1 + e^epsilon), and otherwise the next one. It recommends the arm that it would pull next.
    Since each reward affects only one choice, the privacy loss is at most epsilon.

    Parameters
    ----------
    arms, budget : int
        K, at least 2, and T.
    epsilon : float
        Privacy parameter, positive; it may be infinite.
    """

    arms: int
    budget: int
    epsilon: float

    def __post_init__(self) -> None:
        _check.whole(self.arms, "arms", least=2)
        _check.whole(self.budget, "budget")
        _check.epsilon(self.epsilon)

    def next_arm(self, history: History) -> FloatArray:
        """Return the probabilities, shape (K,), of the next arm; the first one is arm 0."""
        law = np.zeros(self.arms)
        if not history:
            law[0] = 1
            return law
        arm, reward = history[-1]
        lie = math.exp(-self.epsilon) / (1 + math.exp(-self.epsilon))
        stay = lie + (1 - 2 * lie) * reward
        law[[arm, (arm + 1) % self.arms]] = stay, 1 - stay
        return law

    def recommend(self, history: History) -> FloatArray:
        """Return the probabilities, shape (K,), of the recommendation."""
        return self.next_arm(history)


@dataclass(frozen=True)
class EarlyStopping:
    """ES(policy, n, arm): after n pulls of `arm`, pull only an auxiliary arm.

    It recommends the auxiliary arm if it has pulled it, and otherwise what `policy` recommends. It
    reads at most n rewards of `arm`. (After the n pulls, the text of the paper pulls `arm`, and its
    formula the auxiliary arm.) The auxiliary arm, 0 in the paper, is numbered K here.

    Parameters
    ----------
    policy : PullPolicy
        The policy to stop.
    n, arm : int
        The number of pulls, at least 1, and their arm, one of 0, ..., K - 1.
    """

    policy: PullPolicy
    n: int
    arm: int

    def __post_init__(self) -> None:
        _check.kind(self.policy, "policy", PullPolicy)
        _check.whole(self.n, "n")
        if _check.whole(self.arm, "arm", least=0) >= self.policy.arms:
            raise ValueError(f"arm must be one of 0..{self.policy.arms - 1}, got {self.arm}")

    @property
    def arms(self) -> int:
        """K, without the auxiliary arm."""
        return self.policy.arms

    @property
    def budget(self) -> int:
        """T, the number of pulls."""
        return self.policy.budget

    def next_arm(self, history: History) -> FloatArray:
        """Return the law of the next arm: that of the policy before the n-th pull, eq. (18)."""
        stopped = sum(arm == self.arm for arm, _ in history) >= self.n
        return self._auxiliary() if stopped else self.policy.next_arm(history)

    def recommend(self, history: History) -> FloatArray:
        """Return the law of the recommendation: that of the policy unless stopped, eq. (19)."""
        stopped = any(arm == self.arms for arm, _ in history)
        return self._auxiliary() if stopped else self.policy.recommend(history)

    def _auxiliary(self) -> FloatArray:
        return np.asarray(np.eye(self.arms + 1)[-1])


def log_ratio(law: Mapping[Output, float], other: Mapping[Output, float]) -> float:
    """Return the largest log(P(S) / Q(S)) over sets S of outputs; a single output attains it."""
    law, other = _probabilities(law, "law"), _probabilities(other, "other")
    return max(math.log(p / other[out]) if out in other else math.inf for out, p in law.items())


def _probabilities(law: Mapping[Output, float], name: str) -> dict[Output, float]:
    if not _check.kind(law, name, Mapping):
        raise ValueError(f"{name} must hold at least one output")
    return {output: _check.positive(value, name) for output, value in law.items()}
