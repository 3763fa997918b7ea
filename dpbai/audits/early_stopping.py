"""Early stopping (Sec. 4.3), and a private policy to try it on.

`dpbai.audits.pull` lists all outputs of a policy with their exact probabilities; with these, Lemma
4.3, its corollary, and the change of measure can be checked on tiny reward tables.
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
    """Stay with an arm that pays, else go on to the next one; epsilon-private on rewards in [0, 1].

    The policy stays after a reward x with probability (1 + (e^epsilon - 1) x) / (1 + e^epsilon),
    randomized response for x in {0, 1}, and recommends the arm that it would have pulled next. As
    each reward decides one output, its loss is at most epsilon.

    Parameters
    ----------
    arms, budget : int
        K, at least 2, and T.
    epsilon : float
        Privacy parameter, positive; with infinity nothing is random.
    """

    arms: int
    budget: int
    epsilon: float

    def __post_init__(self) -> None:
        _check.whole(self.arms, "arms", least=2)
        _check.whole(self.budget, "budget")
        _check.epsilon(self.epsilon)

    def next_arm(self, history: History) -> FloatArray:
        """Return the probabilities, shape (K,), of the next arm; the first is arm 0."""
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
    """ES(policy, n, arm): once `arm` has been pulled n times, pull the auxiliary arm to the end.

    It recommends the auxiliary arm if it ever pulled it, else what `policy` does, and reads n
    rewards of `arm` at most. (At that point the paper's prose pulls `arm`, its formula the
    auxiliary arm.) The auxiliary arm, the paper's arm 0, is numbered K here.

    Parameters
    ----------
    policy : PullPolicy
    n, arm : int
        At least 1, and one of 0..K-1.
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
        """T, that of the policy."""
        return self.policy.budget

    def next_arm(self, history: History) -> FloatArray:
        """Return the policy's law until `arm` has its n pulls, eq. (18)."""
        stopped = sum(arm == self.arm for arm, _ in history) >= self.n
        return self._auxiliary() if stopped else self.policy.next_arm(history)

    def recommend(self, history: History) -> FloatArray:
        """Return the policy's law unless it was stopped, eq. (19)."""
        stopped = any(arm == self.arms for arm, _ in history)
        return self._auxiliary() if stopped else self.policy.recommend(history)

    def _auxiliary(self) -> FloatArray:
        return np.asarray(np.eye(self.arms + 1)[-1])


def log_ratio(law: Mapping[Output, float], other: Mapping[Output, float]) -> float:
    """Return the largest log(P(S) / Q(S)) over sets S of outputs: a single output attains it."""
    law, other = _probabilities(law, "law"), _probabilities(other, "other")
    return max(math.log(p / other[out]) if out in other else math.inf for out, p in law.items())


def _probabilities(law: Mapping[Output, float], name: str) -> dict[Output, float]:
    if not _check.kind(law, name, Mapping):
        raise ValueError(f"{name} must hold at least one output")
    return {output: _check.positive(value, name) for output, value in law.items()}
