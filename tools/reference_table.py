"""Write `tests/reference.json`: error probabilities, and what Gaussian noise gives, to 30 digits.

Nothing here is the library's own: sums over all outcomes, closed forms, and integrals at 50 digits
whose step is halved until 32 digits stay. It computes the cases that the table lacks, and those of
the kinds that are named, such as `tools/reference_table.py duel wedge`; all of them take minutes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path

import mpmath as mp
from mpmath.calculus.quadrature import GaussLegendre

TABLE = Path(__file__).parent.parent / "tests" / "reference.json"
mp.mp.dps = 50
AGREE = mp.mpf(10) ** -32

Law = tuple  # ("uniform", mean), ("bernoulli", mean)
Noise = tuple  # ("laplace", scale), ("gaussian", sigma)
SIGMAS = (1e-3, 0.05, 0.4, 0.6, 1.0, 4.0, 40.0, 1e3)
WEDGE = ((0.95, 0.96), (1.0, 0.0), (0.0, 1.0))


def transform(law: Law, w: mp.mpc) -> mp.mpc:
    """Return E exp(w X) of one reward."""
    kind, mean = law[0], mp.mpf(law[1])
    if kind == "bernoulli":
        return 1 - mean + mean * mp.exp(w)
    return mp.expm1(2 * mean * w) / (2 * mean * w) if w and mean else mp.mpf(1)


def one_arm(law: Law, pulls: int, epsilon: float) -> mp.mpf:
    """Return P(mean + Lap(1/(n epsilon)) < 0): half of E exp(-epsilon sum), for rewards >= 0."""
    scale = mp.mpf(1 / (epsilon * pulls))  # as the library's noise has it, in double precision
    return transform(law, -1 / (scale * pulls)) ** pulls / 2


def difference_below(noise: Noise, x: mp.mpf) -> mp.mpf:
    """Return P(N - N' < -x)."""
    kind, scale = noise[0], mp.mpf(noise[1])
    if kind == "gaussian":
        return mp.erfc(x / (2 * scale)) / 2
    tail = (2 + abs(x) / scale) / 4 * mp.exp(-abs(x) / scale)
    return tail if x >= 0 else 1 - tail


def chances(mean: float, pulls: int) -> list[mp.mpf]:
    """Return the binomial probabilities of 0, ..., n ones."""
    mean = mp.mpf(mean)
    return [mp.binomial(pulls, k) * mean**k * (1 - mean) ** (pulls - k) for k in range(pulls + 1)]


def bernoulli_duel(means: tuple[float, float], pulls: int, noise: Noise) -> mp.mpf:
    """Sum over both counts."""
    first, second = (chances(mean, pulls) for mean in means)
    lead = {k: difference_below(noise, mp.mpf(k) / pulls) for k in range(-pulls, pulls + 1)}
    return mp.fsum(
        p * q * lead[i - j] for (i, p), (j, q) in product(enumerate(first), enumerate(second))
    )


def uniform_duel(means: tuple[float, float], n: int, scale: float) -> mp.mpf:
    """Return the error of two means of n uniform rewards with noise Lap(b), in closed form.

    A sum of uniforms on [0, a] has the density sum_k (-1)^k C(n, k) (x - a k)_+^(n-1) / (n-1)! a^n.
    The powers are convolved with the density of a difference of two Laplace variates: the inverse
    transform of s^-m (1 - b^2 s^2)^-2, by residues.
    """
    m, b = 2 * n + 1, mp.mpf(scale)
    first, second = (2 * mp.mpf(mean) / n for mean in means)

    def smoothed_power(y: mp.mpf) -> mp.mpf:
        sign = 1 if y < 0 else -1
        pole = sign**m * b ** (m - 2) / 4 * mp.exp(sign * y / b) * (y - sign * b * (m + 1))
        if y < 0:
            return -pole
        powers = (
            (k + 1) * b ** (2 * k) * y ** (m - 1 - 2 * k) / mp.factorial(m - 1 - 2 * k)
            for k in range((m - 1) // 2 + 1)
        )
        return mp.fsum(powers) + pole

    corners = (
        (-1) ** (k + j)
        * mp.binomial(n, k)
        * mp.binomial(n, j)
        * smoothed_power(second * (n - j) - first * k)
        for k, j in product(range(n + 1), repeat=2)
    )
    return mp.fsum(corners) / (first * second) ** n


def duel(laws: tuple[Law, Law], pulls: int, noise: Noise) -> mp.mpf:
    """Return P(mean_1 + N_1 < mean_2 + N_2); where there is no other way, by `along_a_line`."""
    means = laws[0][1], laws[1][1]
    if laws[0][0] == laws[1][0] == "bernoulli":
        return bernoulli_duel(means, pulls, noise)
    if noise[0] == "laplace" and pulls <= 60 and all(means):
        with mp.workdps(250):
            return uniform_duel(means, pulls, noise[1])
    return along_a_line(laws, pulls, noise)


def along_a_line(laws: tuple[Law, Law], pulls: int, noise: Noise) -> mp.mpf:
    """Return P(mean_1 + N_1 < mean_2 + N_2), by the integral of the transform along a line."""
    kind, scale = noise[0], mp.mpf(noise[1])

    def integrand(z: mp.mpc) -> mp.mpc:
        value = (transform(laws[0], -z / pulls) * transform(laws[1], z / pulls)) ** pulls / z
        return (
            value * mp.exp((scale * z) ** 2)
            if kind == "gaussian"
            else value / (1 - (scale * z) ** 2) ** 2
        )

    def level(log_s: float) -> mp.mpf:
        return mp.log(integrand(mp.exp(log_s)).real)

    low, high = (
        mp.mpf(-15),
        (-mp.log(scale) if kind == "laplace" else mp.log(500 * pulls)) - mp.mpf(10) ** -9,
    )
    with mp.workdps(40):
        for _ in range(60):  # it has one minimum
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, right) if level(left) < level(right) else (left, high)
    s = mp.exp((low + high) / 2)
    deviation = mp.sqrt(abs(mp.diff(lambda x: mp.log(integrand(x).real), s, 2)))
    step, total, small, node = 1 / deviation, integrand(s).real / 2, 0, 0
    while small < 30:
        node += 1
        term = integrand(mp.mpc(s, node * step))
        total += term.real
        small = small + 1 if abs(term) < mp.mpf(10) ** -36 * abs(total) else 0
    while True:  # nodes between those of the last round
        more = mp.fsum(integrand(mp.mpc(s, (k + mp.mpf(0.5)) * step)).real for k in range(node))
        if abs(more - total) < AGREE * total:
            return (total + more) / 2 * step / mp.pi
        step, total, node = step / 2, total + more, 2 * node


class BernoulliMean:
    """The mean of n Bernoulli rewards, plus Lap(scale)."""

    def __init__(self, mean: float, pulls: int, scale: float) -> None:
        self.chances, self.scale = chances(mean, pulls), mp.mpf(scale)
        self.knots = [mp.mpf(k) / pulls for k in range(pulls + 1)]

    def _sum(self, part: Callable, x: mp.mpf) -> mp.mpf:
        pairs = zip(self.chances, self.knots, strict=True)
        return mp.fsum(p * part((x - knot) / self.scale) for p, knot in pairs)

    def density(self, x: mp.mpf) -> mp.mpf:
        """Return the density."""
        return self._sum(lambda y: mp.exp(-abs(y)) / 2, x) / self.scale

    def above(self, x: mp.mpf) -> mp.mpf:
        """Return P(Z > x)."""
        return self._sum(lambda y: mp.exp(-y) / 2 if y > 0 else 1 - mp.exp(y) / 2, x)

    def below(self, x: mp.mpf) -> mp.mpf:
        """Return P(Z < x)."""
        return self._sum(lambda y: mp.exp(y) / 2 if y < 0 else 1 - mp.exp(-y) / 2, x)


class UniformMean:
    """The mean of n rewards, uniform on [0, 2 mean], plus Lap(scale), in closed form.

    Each power in the density of the sum (see `uniform_duel`) convolved with the Laplace density is
    g_n: a polynomial for y > 0, and an exponential on both sides.
    """

    def __init__(self, mean: float, pulls: int, scale: float) -> None:
        self.n, self.scale, self.a = pulls, mp.mpf(scale), 2 * mp.mpf(mean) / pulls
        self.signed = [(-1) ** k * mp.binomial(pulls, k) / self.a**pulls for k in range(pulls + 1)]
        self.knots = [self.a * k for k in range(pulls + 1)]

    def _sum(self, order: int, x: mp.mpf) -> mp.mpf:
        """Return sum_k (-1)^k C(n, k) g_order(x - a k) / a^n."""
        b, total = self.scale, mp.mpf(0)
        for signed, knot in zip(self.signed, self.knots, strict=True):
            y = x - knot
            value = b ** (order - 1) / 2 * mp.exp(-abs(y) / b)
            if y > 0:
                value *= (-1) ** order
                power = b ** (order - 1) if order % 2 else b ** (order - 2) * y
                for j in range((order + 1) % 2, order, 2):  # b^(order-1-j) y^j / j!
                    value += power
                    power *= (y / b) ** 2 / ((j + 1) * (j + 2))
            total += signed * value
        return total

    def density(self, x: mp.mpf) -> mp.mpf:
        """Return the density."""
        return self._sum(self.n, x)

    def below(self, x: mp.mpf) -> mp.mpf:
        """Return P(Z < x)."""
        return self._sum(self.n + 1, x)

    def above(self, x: mp.mpf) -> mp.mpf:
        """Return P(Z > x), as the law is symmetric about its mean."""
        return self.below(self.n * self.a - x)


def noisy_mean(law: Law, pulls: int, scale: float) -> BernoulliMean | UniformMean:
    """Return the mean of rewards of a law, plus Lap(scale)."""
    return {"bernoulli": BernoulliMean, "uniform": UniformMean}[law[0]](law[1], pulls, scale)


def between_knots(function: Callable, knots: set, scale: mp.mpf, *, left: bool = True) -> mp.mpf:
    """Integrate between knots, and 160 scales beyond; pieces are halved until they agree."""
    inside = sorted(knots)
    points = [inside[0] - 160 * scale, inside[0] - 20 * scale] if left else []
    points += [*inside, inside[-1] + 20 * scale, inside[-1] + 160 * scale]
    nodes = [(mp.mpf(x), mp.mpf(w)) for x, w in GaussLegendre(mp.mp).calc_nodes(4, 170)]
    pieces, last = 1, None
    while True:
        total = mp.mpf(0)
        for low, high in pairwise(points):
            half = (high - low) / (2 * pieces)
            for piece in range(pieces):
                middle = low + (2 * piece + 1) * half
                total += half * mp.fsum(w * function(middle + half * x) for x, w in nodes)
        if last is not None and abs(total - last) < AGREE * total:
            return total
        pieces, last = 2 * pieces, total


def maximum(laws: tuple[Law, ...], pulls: int, scale: float) -> mp.mpf:
    """Return the probability that another mean with Laplace noise exceeds the first."""
    first, *others = (noisy_mean(law, pulls, scale) for law in laws)

    def exceeded(x: mp.mpf) -> mp.mpf:
        either = mp.mpf(0)
        for other in others:  # it can be far below 1e-50
            either += other.above(x) * (1 - either)
        return first.density(x) * either

    knots = {knot for law in (first, *others) for knot in law.knots}
    with mp.workdps(100):
        return between_knots(exceeded, knots, first.scale)


def wedge(laws: tuple[Law, Law], pulls: int, scale: float) -> mp.mpf:
    """Return the probability that two such means leave the cone of `WEDGE`'s first row."""
    x_law, y_law = (noisy_mean(law, pulls, scale) for law in laws)
    best, *others = (tuple(map(mp.mpf, row)) for row in WEDGE)
    (low, high) = (
        (best[0] - others[1][0]) / (others[1][1] - best[1]),
        (others[0][0] - best[0]) / best[1],
    )
    # The first row wins where y > high x ... and y < low x: between two rays of x > 0.
    small, large = sorted((low, high))

    def outside(x: mp.mpf) -> mp.mpf:
        return x_law.density(x) * (y_law.below(small * x) + y_law.above(large * x))

    knots = {mp.mpf(0), *x_law.knots, *(y / slope for y in y_law.knots for slope in (small, large))}
    knots = {x for x in knots if x <= max(x_law.knots) + 160 * x_law.scale}
    with mp.workdps(100):
        return x_law.below(mp.mpf(0)) + between_knots(outside, knots, x_law.scale, left=False)


def contrast(means: tuple[float, float], scale: float) -> mp.mpf:
    """Return P(U - V + N < 0) for one uniform reward of each of two arms, and N of law Lap(scale).

    The lead x = u - v > 0 errs with probability e^(-x/b) / 2, and the density of x is a trapezoid:
    a sum of +-max(x - a, 0) over its four corners a, divided by the product of the widths.
    """
    first, second = (2 * mp.mpf(mean) for mean in means)
    scale = mp.mpf(scale)
    corners = {-second: 1, first - second: -1, mp.mpf(0): -1, first: 1}

    def integrand(x: mp.mpf) -> mp.mpf:
        density = mp.fsum(sign * max(x - corner, 0) for corner, sign in corners.items())
        tail = mp.exp(-abs(x) / scale) / 2
        return density * (tail if x > 0 else 1 - tail)

    return mp.quad(integrand, sorted(corners)) / (first * second)


def gaussian_log_delta(epsilon: float, sigma: float) -> mp.mpf:
    """Return log(Phi(u - v) - e^epsilon Phi(-u - v)), u = 1/(2 sigma), v = epsilon sigma.

    Digits are added until thirty are left of the difference.
    """
    for digits in (50, 100, 200, 400, 800):
        with mp.workdps(digits):
            epsilon, sigma = mp.mpf(epsilon), mp.mpf(sigma)
            u, v = 1 / (2 * sigma), epsilon * sigma
            first = mp.ncdf(u - v)
            delta = first - mp.exp(epsilon) * mp.ncdf(-u - v)
            if delta > first * mp.mpf(10) ** (34 - digits):
                return mp.log(delta)
    raise ValueError("more digits are needed")


def gaussian_sigma(epsilon: float, delta: float) -> mp.mpf:
    """Return the sigma at which `gaussian_log_delta` is log(delta), by bisection of its log."""
    target = mp.log(mp.mpf(delta))
    low = high = -mp.log(2 * mp.mpf(epsilon)) / 2
    while gaussian_log_delta(epsilon, mp.exp(low)) <= target:
        low -= 1
    while gaussian_log_delta(epsilon, mp.exp(high)) > target:
        high += 1
    while high - low > mp.mpf(10) ** -34:
        middle = (low + high) / 2
        larger = gaussian_log_delta(epsilon, mp.exp(middle)) > target
        low, high = (middle, high) if larger else (low, middle)
    return mp.exp((low + high) / 2)


def tolerance(epsilon: float, delta: float) -> float:
    """Return by how much sigma may differ, for log(delta) to differ by a share of 1e-8."""
    log_sigma, step = mp.log(gaussian_sigma(epsilon, delta)), mp.mpf(10) ** -9
    ends = [gaussian_log_delta(epsilon, mp.exp(log_sigma + way * step)) for way in (-1, 1)]
    return float(mp.mpf(10) ** -8 * abs(mp.log(mp.mpf(delta))) / abs(ends[1] - ends[0]) * 2 * step)


def laplace_delta(epsilon: float, shift: float, scale: float) -> mp.mpf:
    """Return 1 - exp((epsilon - shift/scale) / 2)."""
    return -mp.expm1((mp.mpf(epsilon) - mp.mpf(shift) / mp.mpf(scale)) / 2)


def cases() -> Iterator[tuple[str, list, float]]:
    """Yield kind, arguments and relative tolerance (for log deltas: of the logarithm)."""
    for law, runs in (
        (("bernoulli", 0.5), ((1, 1.0), (20, 700.0), (10**3, 0.5), (10**9, 4e-7))),
        (("bernoulli", 1e-6), ((10**9, 0.3), (10**6, 30.0))),
        (("bernoulli", 1 - 1e-9), ((7, 60.0), (400, 1.0))),
        (("bernoulli", 1.0), ((10, 30.0), (10**9, 2e-7))),
        (("uniform", 0.5), ((1, 1.0), (5, 50.0), (300, 2.0), (10**9, 4e-7))),
        (("uniform", 0.01), ((50, 10.0), (2000, 20.0))),
    ):
        for pulls, epsilon in runs:
            yield "one_arm", [law, pulls, epsilon], 1e-9
    bernoulli = (
        ((0.6, 0.4), 20, 1.0),
        ((1.0, 0.9), 20, 36.0),
        ((1 - 1e-12, 0.9), 20, 41.0),
        ((0.5, 1e-12), 30, 0.3),
        ((1e-3, 1e-9), 60, 5.0),
        ((0.999, 0.001), 60, 8.0),
        ((1.0, 0.0), 40, 11.0),
        ((0.55, 0.5), 100, 0.1),
        ((0.9, 0.2), 100, 700.0),
    )
    for means, pulls, epsilon in bernoulli:
        laws = [["bernoulli", mean] for mean in means]
        yield "duel", [laws, pulls, ["laplace", 1 / (pulls * epsilon)]], 1e-9
        yield "duel", [laws, pulls, ["gaussian", 3 / (pulls * epsilon)]], 1e-9
    others = (
        (("uniform", 0.5), ("uniform", 0.45), 30, 1.0),
        (("uniform", 0.5), ("uniform", 0.05), 60, 20.0),
        (("uniform", 0.5), ("uniform", 0.49999), 10**9, 1.0),
        (("uniform", 0.5), ("uniform", 0.499), 10**9, 3.0),
    )
    for first, second, pulls, epsilon in others:
        yield "duel", [[first, second], pulls, ["laplace", 1 / (pulls * epsilon)]], 1e-9
        yield "duel", [[first, second], pulls, ["gaussian", 3 / (pulls * epsilon)]], 1e-9
    for means, pulls, epsilon in (
        ((0.5, 0.45), 4, 2.0),
        ((0.5, 0.1), 20, 25.0),
        ((0.5, 0.05), 30, 18.0),
        ((0.25, 0.0), 6, 1 / 0.6),
    ):
        laws = [["uniform", mean] for mean in means]
        yield "duel", [laws, pulls, ["laplace", 1 / (pulls * epsilon)]], 1e-8
    for means, pulls, epsilon in (
        ((0.45, 0.4), 5, 3.0),
        ((0.5, 0.5), 12, 20.0),
        ((1.0, 0.99), 6, 30.0),
        ((0.999999, 0.9), 6, 1.0),
    ):
        laws = [["bernoulli", mean] for mean in means]
        yield "wedge", [laws, pulls, 1 / (pulls * epsilon)], 1e-9
    for means, pulls, epsilon in (((0.45, 0.4), 4, 2.0), ((0.45, 0.45), 10, 50.0)):
        laws = [["uniform", mean] for mean in means]
        yield "wedge", [laws, pulls, 1 / (pulls * epsilon)], 1e-8
    for means, pulls, epsilon in (
        ((0.6, 0.5, 0.3, 0.1), 4, 1.0),
        ((0.99, 0.03, 0.02), 9, 8.0),
        ((1.0, 0.9, 0.0), 5, 40.0),
        ((1.0, 1e-9, 1e-9), 12, 20.0),
    ):
        laws = [["bernoulli", mean] for mean in means]
        yield "maximum", [laws, pulls, 1 / (pulls * epsilon)], 1e-9
    for means, pulls, scale in (
        ((0.5, 0.45, 0.4, 0.45, 0.1), 3, 1 / 3),
        ((0.5, 0.05, 0.02), 8, 1 / 320),
        *(((0.5, 0.3), 3, scale) for scale in (0.1, 1.0, 30.0, 1e5)),
    ):
        yield "maximum", [[["uniform", mean] for mean in means], pulls, scale], 1e-8
    for means in ((0.5, 0.25), (0.5, 0.499), (0.4, 0.001)):
        for scale in (1e300, 1e9, 1e5, 100.0, 9.0, 0.3):
            yield "contrast", [means, scale], 1e-9
    for epsilon, sigma in (
        (1.0, 1.0),
        (0.0, 3.0),
        (1e-8, 1e4),
        (1e-3, 1e3),
        (1.0, 36.9),
        (0.1, 300.0),
        (50.0, 0.05),
        (50.0, 0.3),
        (700.0, 0.02),
        (1e4, 0.007),
        (5.0, 8.0),
        (30.0, 1.5),
        *product((0.0, 1e-6, 0.01, 0.5, 1.0, 8.0, 100.0, 1e4), SIGMAS),
        *((1.0, sigma) for sigma in (31.0, 1e5, 3e7, 1e8, 1e9, 1e12, 1e100)),
    ):
        yield "gaussian_log_delta", [epsilon, sigma], 1e-11
    pairs = [*product((1e-4, 0.1, 1.0, 30.0, 1e4), (1e-300, 1e-30, 1e-5, 0.1, 0.5, 0.9))]
    for epsilon, delta in pairs:
        yield "gaussian_sigma", [epsilon, delta], 1e-9
    deltas = (5e-324, 1e-300, 1e-100, 1e-10, 1e-5, 0.5, 1 - 2**-53)
    for epsilon, delta in product((1e-100, 1e-20, 1e-8, 1.0, 1e3, 1e8), deltas):
        if (epsilon, delta) not in pairs:
            yield "gaussian_sigma", [epsilon, delta], tolerance(epsilon, delta)
    for epsilon, shift, scale in (
        (0.1, 1.0, 1.0),
        (1.0, 1e-6, 9e-7),
        (699.0, 700.0, 1.0),
        (0.0, 1e-12, 1.0),
    ):
        yield "laplace_delta", [epsilon, shift, scale], 1e-9


FUNCTIONS = (
    one_arm,
    duel,
    wedge,
    maximum,
    contrast,
    gaussian_log_delta,
    gaussian_sigma,
    laplace_delta,
)


def main() -> None:
    """Compute the cases, print the new ones, and write the table."""
    by_name = {function.__name__: function for function in FUNCTIONS}
    chosen = sys.argv[1:]
    stored = {}
    if TABLE.exists():
        for row in json.loads(TABLE.read_text(encoding="utf-8")):
            stored[json.dumps([row["kind"], row["arguments"]])] = row
    rows = []
    for kind, arguments, rtol in cases():
        row = stored.get(json.dumps([kind, arguments]))
        if row is None or kind in chosen:
            value = mp.nstr(by_name[kind](*arguments), 30)
            row = {"kind": kind, "arguments": arguments, "value": value, "rtol": rtol}
            print(json.dumps(row), flush=True)
        rows.append(row)
    TABLE.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
