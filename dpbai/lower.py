"""The lower bound of Theorem 4.7: change of measure, its constants, and its three cases.

The theorem follows from two bounds. For every large K and H_BAI, some instance has an error above
exp(-401 T/(log K H_BAI)), with or without privacy. Under any consistent epsilon-private policy, one
of `hard_instances` has an error above exp(-97 T/(log K H_pri)). (The theorem omits
"epsilon-private"; its third case needs it.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbai import _check
from dpbai.hardness import hardness
from dpbai.instance import Instance

BAI_CONSTANT = 401
PRI_CONSTANT = 97


def change_of_measure(*, epsilon: float, pulls: int, distance: float) -> float:
    """Return the log of the paper's factor between two instances, 6 epsilon n TV.

    The factor bounds the ratio of the probabilities of an output under the two instances, after
    Karwa and Vadhan. The paper states it for every epsilon. It holds for e^epsilon - 1 <= 6
    epsilon, that is up to epsilon = 2.91; the lower bound needs it for epsilon < 1 only.
    `sharp_change_of_measure` always holds.

    Parameters
    ----------
    epsilon : float
        Privacy parameter of the policy, positive and finite.
    pulls : int
        n, the number of pulls of the one arm that differs after which the policy is stopped.
    distance : float
        Total variation distance of that arm's two reward laws, in [0, 1]: 2 gamma between Bernoulli
        laws of means 1/2 - gamma and 1/2 + gamma.
    """
    epsilon, pulls, distance = _checked(epsilon, pulls, distance)
    return 6 * epsilon * pulls * distance


def sharp_change_of_measure(*, epsilon: float, pulls: int, distance: float) -> float:
    """Return the log of the least factor that always holds, n log(1 + (e^epsilon - 1) TV).

    As a function of one reward, the probability of an output varies by a factor of at most
    e^epsilon, so its means under two laws differ by at most TV (e^epsilon - 1) times its least
    value. Randomized response attains this. Parameters are those of `change_of_measure`.
    """
    epsilon, pulls, distance = _checked(epsilon, pulls, distance)
    if distance == 0:
        return 0.0
    if epsilon < 1:
        return pulls * math.log1p(distance * math.expm1(epsilon))
    # e^epsilon may overflow: log(1 + TV (e^eps - 1)) = eps + log(TV + (1 - TV) e^-eps).
    return pulls * (epsilon + math.log(distance + (1 - distance) * math.exp(-epsilon)))


def lower_bound(instance: Instance, *, epsilon: float, budget: int) -> float:
    """Return exp(-97 T / (log K H_pri)), Lemma H.5, for a finite `epsilon`.

    For T >= `lower_bound_valid_from`, some instance of `hard_instances` has at least this error.
    """
    hard = hardness(instance, epsilon=_check.positive(epsilon, "epsilon"))
    return _decay(PRI_CONSTANT, budget, instance.arms, hard.pri)


def sharp_pri_constant(arms: int) -> float:
    """Return 2 log(K) / (1/2 + ... + 1/K), which can replace 97 in Lemma H.5; not in the paper.

    For every c above this constant, every consistent epsilon-private policy (for any epsilon) and
    all large T, some instance of `hard_instances` has an error above exp(-c T / (log K H_pri)).
    """
    arms = _check.whole(arms, "arms", least=2)
    return 2 * math.log(arms) / math.fsum(1 / i for i in range(2, arms + 1))


def lower_bound_bai(instance: Instance, *, budget: int) -> float:
    """Return exp(-401 T / (log K H_BAI)), the paper's version of Carpentier and Locatelli (2016).

    For every large K and H_BAI, some instance has at least this error, with or without privacy.
    """
    hard = hardness(instance, epsilon=math.inf)
    return _decay(BAI_CONSTANT, budget, instance.arms, hard.bai)


def lower_bound_valid_from(*, arms: int, pri: float) -> float:
    """Return the T from which on the constant 97 covers the factor 1/4 and rounding.

    It is log(4) log(K) H_pri + 24 (K - 1). For T above the first term, the paper's (1/4) exp(-96
    T/(log K H_pri)) is at least exp(-97 T/(log K H_pri)). The second term is needed because
    rounding up n_i = 4 E N_i adds at most K - 1 to their sum 4 T. In addition, T must be so large
    that the policy recommends the best arm of v^(0) with probability above 1/2.

    Parameters
    ----------
    arms : int
        K, at least 4.
    pri : float
        The largest H_pri of `hard_instances`.
    """
    arms = _check.whole(arms, "arms", least=4)
    return math.log(4) * math.log(arms) * _check.positive(pri, "pri") + 24 * (arms - 1)


@dataclass(frozen=True)
class CaseThresholds:
    """Thresholds above which the three cases of Theorem 4.7 hold, as logarithms.

    Attributes
    ----------
    log_log_arms : float
        Case 1, log log K: log K / 401 > 2 c (log K)^beta above log K = (802 c)^(1/(1 - beta)).
    printed_log_log_arms : float
        The paper's log K = 401^(1/(1 - beta)) (2 c)^(beta/(1 - beta)), too small if 2 c > 1.
    log_bai : float
        Case 2, log H_BAI: H / 401 > 2 c H^beta above H = (802 c)^(1/(1 - beta)).
    log_pri : float
        Case 3, log H_pri: H / 97 > 2 c H^beta above H = (194 c)^(1/(1 - beta)).
    """

    log_log_arms: float
    printed_log_log_arms: float
    log_bai: float
    log_pri: float


def case_thresholds(*, beta: float, c: float) -> CaseThresholds:
    """Return the thresholds above which the three cases of Theorem 4.7 hold.

    `beta`, in [0, 1), is the one of beta_1, beta_2, beta_3 that is below 1; `c` is the constant of
    the theorem, positive and finite.
    """
    power = 1 / (1 - _check.number(beta, "beta", "[0, 1)"))
    c = _check.positive(c, "c")
    bai = power * (math.log(2 * BAI_CONSTANT) + math.log(c))
    return CaseThresholds(
        log_log_arms=bai,
        printed_log_log_arms=power * (math.log(BAI_CONSTANT) + beta * (math.log(2) + math.log(c))),
        log_bai=bai,
        log_pri=power * (math.log(2 * PRI_CONSTANT) + math.log(c)),
    )


def _decay(constant: int, budget: int, arms: int, hard: float) -> float:
    return math.exp(-constant * _check.whole(budget, "budget") / (math.log(arms) * hard))


def _checked(epsilon: float, pulls: int, distance: float) -> tuple[float, int, float]:
    return (
        _check.positive(epsilon, "epsilon"),
        _check.whole(pulls, "pulls", least=0),
        _check.number(distance, "distance", "[0, 1]"),
    )
