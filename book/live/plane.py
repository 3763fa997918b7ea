"""The numbers of the interactive plane: results of the library for eight arms."""

import json

import numpy as np

import dpbai

TRIALS = 1000


def told(
    arms: list[list[float]], theta: list[float], budget: int, epsilon: float
) -> str:
    """Return the Max-Det pair, the private design's pulls and success, as JSON.

    Rewards are 0 or 1, with the means that arms and theta give.
    """
    vectors = np.array(arms)
    pair = dpbai.max_det(vectors)
    answer = {
        "pair": pair.indices.tolist(),
        "area": float(np.exp(pair.log_abs_det)),
        "pulls": dpbai.private_design(
            vectors, pulls=budget, epsilon=epsilon
        ).pulls.tolist(),
        "success": {},
    }
    instance = dpbai.Instance(vectors, theta, rewards=dpbai.Bernoulli)
    policies = {
        "DP-BAI": dpbai.DPBAI(vectors, budget=budget, epsilon=epsilon),
        "DP-Design": dpbai.DPDesign(vectors, budget=budget, epsilon=epsilon),
        "OD-LinBAI, not private": dpbai.ODLinBAI(vectors, budget=budget),
    }
    for name, policy in policies.items():
        result = dpbai.simulate(policy, instance, trials=TRIALS, seed=0)
        answer["success"][name] = result.success_rate
    return json.dumps(answer)
