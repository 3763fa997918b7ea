"""Who survives a phase: the arms with the largest estimates, and what happens to ties.

Estimates are `decoder @ released`. Two of them tie if they are equal to within rounding: if they
differ by at most `ROUNDING` times the sizes that went into them. These are, for one estimate, the
sum of `abs(decoder[i, j])` times `abs(released[j])` and the largest size of the statistic j (for
rewards of 1), so that neither the units of the features nor those of an arm matter. The rule reads
nothing but the plan and its release, so it costs no privacy. Arms above all ties for the last place
survive, and those that tie for the places left get them at random, all with the same chance: so
to relabel the arms is to relabel the law of the survivors.

With one survivor and at most two coordinates only vertices of the convex hull of the decoder's rows
can have the largest estimate. They alone are compared, unless there may be a tie.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbai._check import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

ROUNDING = 2.0**-36
"""Linear algebra on unfriendly features loses more than a few digits; differences of estimates that
are not 0 are hardly ever as small as this."""

_NEAR = 1e-3  # an arm that is nearer to a vertex than this is compared, as if it were one


def tied(
    decoder: FloatArray | None, released: FloatArray, reach: FloatArray, keep: int
) -> tuple[BoolArray, BoolArray]:
    """Return who survives for sure, and who ties for the places left: shape (trials, arms) each.

    Parameters
    ----------
    decoder : ndarray of shape (arms, q) or None
        None stands for the identity.
    released : ndarray of shape (trials, q)
    reach : ndarray of shape (q,)
        The largest size of each statistic before noise.
    keep : int
        How many survive, at most as many as there are arms.
    """
    estimates, sizes = released, ROUNDING * (np.abs(released) + reach)
    if decoder is not None:
        estimates, sizes = released @ decoder.T, sizes @ np.abs(decoder).T
    last = estimates.shape[1] - keep
    at = np.argpartition(estimates, last, axis=1)[:, last, None]
    lead = estimates - np.take_along_axis(estimates, at, axis=1)
    equal = np.abs(lead) <= sizes + np.take_along_axis(sizes, at, axis=1)
    return (lead > 0) & ~equal, equal


def survivors(
    decoder: FloatArray | None,
    released: FloatArray,
    reach: FloatArray,
    keep: int,
    compared: IntArray,
    rng: np.random.Generator,
) -> tuple[IntArray, BoolArray]:
    """Return some arms, and which of them survive: the others do not; shape (len, trials).

    `compared` lists `contenders`; the other parameters are those of `tied`. Nothing is drawn from
    `rng` where there is no tie.
    """
    trials, arms = len(released), released.shape[1] if decoder is None else len(decoder)
    if keep == arms:
        return np.arange(arms), np.ones((arms, trials), dtype=np.bool_)
    columns = np.ascontiguousarray(released.T)
    estimates = columns if decoder is None else decoder[compared] @ columns
    largest = np.maximum(columns.max(axis=1), -columns.min(axis=1)) + reach
    sizes = largest if decoder is None else np.abs(decoder[compared]) @ largest
    # Beyond this distance there is no tie, whatever the exact sizes. It is no tie with an arm that
    # was left out either: that lags behind by a share `_NEAR`, or more, of what a vertex does.
    margin = 2 * ROUNDING / _NEAR * sizes.max()
    last = len(estimates) - keep
    least = estimates.max(axis=0) if keep == 1 else np.partition(estimates, last, axis=0)[last]
    above = estimates >= least - margin
    if np.count_nonzero(above) == trials * keep:
        return compared, above
    unclear = np.flatnonzero(above.sum(axis=0) > keep)
    kept = np.zeros((arms, trials), dtype=np.bool_)
    kept[compared] = above
    kept[:, unclear] = False
    kept[_drawn(decoder, released[unclear], reach, keep, rng).T, unclear] = True
    return np.arange(arms), kept


def _drawn(
    decoder: FloatArray | None,
    released: FloatArray,
    reach: FloatArray,
    keep: int,
    rng: np.random.Generator,
) -> IntArray:
    """Return positions of the survivors, shape (trials, keep), where some arms may tie."""
    sure, equal = tied(decoder, released, reach, keep)
    order = np.where(sure, 2.0, np.where(equal, 1.0, -1.0))
    drawn = (sure | equal).sum(axis=1) > keep
    chance = rng.random((np.count_nonzero(drawn), order.shape[1]))
    order[drawn] = np.where(equal[drawn], chance, order[drawn])
    return np.argpartition(-order, keep - 1, axis=1)[:, :keep]


def alike(decoder: FloatArray, row: int, *, within: float = ROUNDING) -> BoolArray:
    """Return which arms tie with that of a row, whatever is released; shape (arms,)."""
    units = np.abs(decoder).max(axis=0)
    scaled = decoder / np.where(units > 0, units, 1.0)
    sizes = np.abs(scaled).sum(axis=1)
    distance = np.abs(scaled - scaled[row]).sum(axis=1)
    return np.asarray(distance <= within * (sizes + sizes[row]))


def contenders(decoder: FloatArray) -> IntArray:
    """Return the arms that may have the largest of estimates decoded from 1 or 2 coordinates.

    These are the vertices of the convex hull of the rows of the decoder, and all that is near them.
    """
    points = np.pad(decoder, ((0, 0), (0, 2 - decoder.shape[1])))
    order = np.lexsort(points.T).tolist()
    x, y = points.T.tolist()
    vertices: list[int] = []
    for way in (order, order[::-1]):  # one half of the hull, then the other
        chain: list[int] = []
        for k in way:
            while len(chain) > 1:
                i, j = chain[-2:]
                if (x[j] - x[i]) * (y[k] - y[i]) > (y[j] - y[i]) * (x[k] - x[i]):
                    break
                chain.pop()
            chain.append(k)
        vertices += chain
    near = [alike(decoder, row, within=_NEAR) for row in set(vertices)]
    return np.flatnonzero(np.any(near, axis=0))
