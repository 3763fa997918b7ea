"""DP-OD: OD-LinBAI with Laplace noise on the moment vector (App. E)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.noise import Laplace, Noise, NoNoise
from dpbai.policies.od_linbai import ODLinBAI

NORMS = ("l2", "l1")
_LARGEST_SCALE = 1e305


@dataclass(frozen=True, eq=False)
class DPOD(ODLinBAI):
    """DP-OD: OD-LinBAI with Laplace noise on each coordinate of the moment vector (App. E).

    Parameters
    ----------
    epsilon : float
        Privacy parameter, positive; infinity means no noise.
    norm : {"l2", "l1"}
        Norm in L = max_i ||a_i||, with noise Lap(L/epsilon). "l2" is as printed; but one reward
        moves the moment vector by a_i, and Laplace noise hides it by the L1 norm, so that the loss
        can reach sqrt(d) epsilon. "l1" keeps the promised epsilon.

    `features` and `budget` are those of `ODLinBAI`.

    Notes
    -----
    The noise is tied to the coordinates that the features are given in: rotating or rescaling them
    changes the policy. When the active arms span fewer dimensions, the coordinates are those of an
    orthonormal basis of their span.
    """

    _: KW_ONLY
    epsilon: float
    norm: str = "l2"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epsilon", _check.epsilon(self.epsilon))
        _check.choice(self.norm, "norm", NORMS)
        self.noise(self.scaled_features)  # a scale that overflows fails here

    def noise(self, vectors: FloatArray) -> Noise:
        """Return Lap(L/epsilon): L over all K arms as printed, or the L1 norm of active ones."""
        if math.isinf(self.epsilon) or not vectors.any():
            return NoNoise()
        if self.norm == "l2":
            length = float(np.linalg.norm(self.scaled_features, axis=1).max())
        else:
            length = float(np.abs(vectors).sum(axis=1).max())
        if not 0 < length / self.epsilon < _LARGEST_SCALE:
            raise ValueError(
                f"features and epsilon must give noise of a scale below {_LARGEST_SCALE:g}, L / "
                f"epsilon, got L = {length:.6g} and epsilon = {self.epsilon:g}"
            )
        return Laplace(length / self.epsilon)
