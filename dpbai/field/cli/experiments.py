"""The commands that assume means: simulate, study, budget, epsilon; and --gap of plan."""

from __future__ import annotations

import argparse
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from functools import cached_property, partial
from multiprocessing import active_children, get_context
from typing import Any

import numpy as np
from tqdm import tqdm

from dpbai import _check, field
from dpbai._check import FloatArray
from dpbai.beyond import gaps
from dpbai.beyond.planning import SearchError, smallest_budget, smallest_epsilon
from dpbai.exact import NotExactError, exact_success
from dpbai.field.cli import advice, arguments, tables
from dpbai.field.cli.answers import Answer, say, show
from dpbai.field.cli.sheets import nearest, plural, quoted
from dpbai.field.cli.tables import Arms
from dpbai.instance import Instance
from dpbai.phase import Policy
from dpbai.simulate import Simulation, simulate
from dpbai.study import study, takes_epsilon

_MOST_ARMS = 40  # tried as the best arm
_LEAST_TRIALS = 200  # for each of them
_MOST_MEANS = 12  # printed
_OFF_TRIALS, _LOSS_TRIALS = 200, 1000
_TABLES = 20  # of means that deviate from linear ones
_MOST_PULLS = 10**9  # the largest budget of the search, by default
_LARGEST_EXPONENT = 700.0
_BUDGET_ROW = "{:<13}{:>8}{:>10}{:>9}{:>10}{:>11}{:>11}{:>8}"
_STUDY_SHOWN = [
    "policy", "budget", "epsilon", "trials", "success_rate", "low", "high", "regret", "within",
]  # which fit into 80 columns  # fmt: skip
_MEANING = (
    "What epsilon means: two sets of rewards are neighbours if they differ in one reward of one "
    "pull. An observer who sees everything that a run releases, and knows all rewards except one, "
    "can improve the odds of a guess about that one by a factor of at most e^epsilon (for "
    "dp-bai-gauss: up to an additional probability of delta). A guess that was right with "
    "probability 50 % is then right with probability at most"
)


@dataclass(frozen=True, eq=False)
class Assumed:
    """Means that are assumed for the arms, on the scale where rewards lie in [0, 1]."""

    given: argparse.Namespace
    arms: Arms
    means: FloatArray

    @cached_property
    def instance(self) -> Instance:
        """The instance with these means."""
        return self._with(self.means)

    def _with(self, means: FloatArray) -> Instance:
        laws = map(arguments.REWARDS[self.given.law].make, means.tolist())
        return Instance(self.arms.features, rewards=list(laws), unique=False)

    @property
    def width(self) -> float:
        """The length of the reward range."""
        return float(self.given.reward_range.width)

    @property
    def within(self) -> float:
        """How far below the best mean a right answer may be, with rewards in [0, 1]."""
        return float(self.given.within / self.width)

    @property
    def best(self) -> str:
        """The names of the best arms."""
        return " or ".join(quoted(self.arms.labels[arm]) for arm in self.instance.ties)

    @property
    def right(self) -> str:
        """Which answers are right, and the required probability of one of them."""
        gaps = self.instance.gaps
        right = f"{self.best} (ahead by {self.width * min(gaps[gaps > 0], default=0.0):.4g})"
        if self.within:
            right = f"at most {self.given.within:g} below {self.best}"
        return f"the answer is {right} with probability {self.given.success:g}"

    @property
    def note(self) -> list[str]:
        """The means that --gap stands for, in descending order; some of them if there are many."""
        if self.given.means is not None:
            return []
        # Without the rounding errors of linear programs, so that equal means keep their order.
        order = np.argsort(-self.means.round(6), kind="stable").tolist()
        means = self.given.reward_range.shown(self.means.round(8)).tolist()
        entries = [f"{quoted(self.arms.labels[arm])} {means[arm]:.3g}" for arm in order]
        if len(entries) > _MOST_MEANS:
            entries[_MOST_MEANS - 2 : -1] = ["..."]
        return [f"Means assumed for --gap: {', '.join(entries)}"]

    def deviation(self, policy: Policy) -> float:
        """Return by how much means may deviate: --misfit, or its default; rewards are in [0, 1]."""
        misfit = float(self.given.misfit or 0)
        return misfit if 0 < misfit <= 1 else advice.deviation(policy)

    def run(self, policy: Policy, trials: int | None = None) -> Simulation:
        """Simulate a policy."""
        trials = trials or self.given.trials
        return simulate(policy, self.instance, trials=trials, seed=self.given.seed)

    def success(self, policy: Policy, trials: int) -> tuple[float, float, float]:
        """Return the success probability and an interval for it, a point if it is exact."""
        if not self.within:
            with suppress(NotExactError):
                return (exact_success(policy, self.instance),) * 3
        result = self.run(policy, trials)
        return (result.within(self.within), *result.interval(within=self.within))

    def off(self, policy: Policy, trials: int) -> tuple[float, float]:
        """Return success probability and mean loss if means deviate from the assumed ones."""
        rng, law, found = _check.generator(self.given.seed), arguments.REWARDS[self.given.law], []
        for seed in range(_TABLES):
            deviations = self.deviation(policy) * rng.standard_normal(len(self.means))
            instance = self._with((self.means + deviations).clip(law.lowest, law.highest))
            result = simulate(policy, instance, trials=max(1, trials // _TABLES), seed=seed)
            found.append((result.within(self.within), result.regret))
        success, loss = np.mean(found, axis=0).tolist()
        return success, loss * self.width

    def searched(
        self, search: Callable[..., Any], option: str, make: Callable[..., Policy]
    ) -> tuple[Any, Policy]:
        """Return the least value of a parameter that is enough, and the policy with it.

        SearchError if no value is.
        """
        found = search(
            lambda value: make(**{option: value}),
            self.instance,
            error=1 - self.given.success,
            within=self.within,
            trials=self.given.trials,
            seed=self.given.seed,
            progress=sys.stderr.isatty(),
        )
        return found, make(**{option: getattr(found, option)})

    def closing(
        self, found: Sequence[tuple[str, Policy, str]], epsilons: Iterable[float]
    ) -> list[str]:
        """Return the models of policies, each with a name and a setting, and what epsilon means."""
        tried = [(*entry, self.deviation(entry[1])) for entry in found if entry[2]]
        sizes = sorted({size for *_, size in tried})
        off = [
            f"{name} {self.off(policy, _OFF_TRIALS)[0]:.2g} at {setting}"
            + f" (by {size:g})" * (len(sizes) > 1)
            for name, policy, setting, size in tried
        ]
        means = "that are linear in the features" if self.given.means is None else "as given"
        aside = (
            f"The table is for means {means}. If they deviate from these by about "
            f"{' to '.join(f'{size:g}' for size in sizes)} of the reward range, the probability of "
            f"a right answer is: {', '.join(off)}."
        )
        meanings = (
            f"  {100 / (1 + math.exp(-epsilon)):.3g} % at epsilon = {epsilon:.4g}"
            for epsilon in sorted(set(epsilons))
        )
        group = "If one person gives several rewards, multiply epsilon by their number."
        return [
            *dict.fromkeys(advice.model(policy, name) for name, policy, _ in found),
            *([aside, "", _MEANING, *meanings, group] if off else []),
        ]


def assumed(given: argparse.Namespace, arms: Arms) -> Assumed:
    """Return the means of --means, or those of --gap with the smallest sum of gaps."""
    if given.means is None:
        return min(leading(given, arms), key=lambda case: float(case.instance.gaps.sum()))
    if given.best is not None:
        raise ValueError("--best can be used only with --gap")
    scale, law = given.reward_range, arguments.REWARDS[given.law]
    means = np.array(tables.read_means(given, arms.labels))
    inside = (means - scale.low) / scale.width
    for arm in np.flatnonzero((inside < law.lowest) | (inside > law.highest)):
        low, high = map(scale.shown, (law.lowest, law.highest))
        raise ValueError(
            f"mean of arm {arms.labels[arm]!r} must lie in [{low:g}, {high:g}] for {given.law} "
            f"rewards, got {means[arm]:g}"
        )
    return Assumed(given, arms, inside)


def leading(given: argparse.Namespace, arms: Arms) -> list[Assumed]:
    """Return means with which an arm leads by --gap: --best, or each arm, or some of many arms."""
    labels, best, scale = arms.labels, given.best, given.reward_range
    if best is not None and best not in labels:
        raise ValueError(f"--best must be one of the arms, got {best!r}{nearest(best, labels)}")
    least = gaps.SMALLEST * scale.width
    if given.gap < least:
        raise ValueError(
            f"--gap must be at least {least:g}, a millionth of the reward range, got "
            f"{given.gap:g}: no budget is large enough to detect a smaller one"
        )
    spread = np.linspace(0, len(labels) - 1, min(len(labels), _MOST_ARMS))
    tried = spread.astype(int).tolist() if best is None else [labels.index(best)]
    # `plan` has no option for the law: rewards of 0 and 1 vary most.
    law = arguments.REWARDS[given.law]
    limits = law.lowest, law.highest
    found = [gaps.closest(arms.features, arm, given.gap / scale.width, *limits) for arm in tried]
    if cases := [Assumed(given, arms, means) for means in found if means is not None]:
        return cases
    low, high = map(scale.shown, limits)
    most = scale.width * max(gaps.largest(arms.features, arm, *limits) for arm in tried)
    which = "no arm can" if best is None else f"arm {quoted(best)} cannot"
    model = f"with means that are linear in these features and lie in [{low:g}, {high:g}], {which}"
    if most >= least:
        raise ValueError(
            f"--gap must be at most {most:.3g}, got {given.gap:g}: {model} lead by more"
        )
    another = "" if best is None else ", or another arm with --best"
    constant = "" if tables.has_constant(arms.features) else ", or add a constant with --intercept"
    raise ValueError(
        f"--gap needs an arm that can be the best, but {model} be ahead of all others: choose "
        f"other features{another}{constant}"
    )


def expected(given: argparse.Namespace, policy: Policy, arms: Arms) -> list[str]:
    """Return how often a policy finds the best arm if it leads by --gap."""
    scale, cases = given.reward_range, leading(given, arms)
    trials = max(min(_LEAST_TRIALS, given.trials), given.trials // len(cases))
    rates = [
        case.success(policy, trials) for case in tqdm(cases, unit="arm", disable=None, leave=False)
    ]
    order = sorted(range(len(cases)), key=lambda k: rates[k])
    hardest = cases[order[0]]
    found = "it is found"
    if given.within:
        found = f"an arm at most {given.within:g} below it is recommended"
    least, most = (
        f"with probability {_rate(*rates[k])} if it is {cases[k].best}"
        for k in (order[0], order[-1])
    )
    more = f", and {most}" if len(cases) > 1 else ""
    more += "; the other arms are between these" if len(cases) > 2 else ""
    loss, off = hardest.run(policy, trials).regret * scale.width, hardest.off(policy, trials)
    size = hardest.deviation(policy) * scale.width
    texts = [
        f"If the best arm leads by {given.gap:g} (with rewards of {scale.low:g} or {scale.high:g}, "
        f"and the other means as close as linear means can be), {found} {least}{more}.",
        f"The mean of the answer is then {loss:.3g} below the best mean, on average (mean loss).",
        f"If means deviate from such linear ones by about {size:g}, the best arm is found with "
        f"probability {off[0]:.3g}, and the mean loss is {off[1]:.3g}.",
        *hardest.note,
    ]
    count = len(arms.labels)
    looked = 1 if given.best is not None else min(count, _MOST_ARMS)
    if given.best is None and looked < count:
        texts.append(f"(Of {count} arms, {looked} were tried as the best arm.)")
    if cannot := looked - len(cases):
        texts.append(f"({plural(cannot, 'arm')} cannot lead by this much with linear means.)")
    return texts


def run_simulation(given: argparse.Namespace) -> Answer:
    """Simulate a policy many times with assumed means."""
    arms = tables.read_arms(given)
    policy, case = arguments.policy(given, arms.features), assumed(given, arms)
    result, instance = case.run(policy), case.instance
    recommended = result.recommended.tolist()
    means = given.reward_range.shown(instance.means).tolist()
    low, high = result.interval()
    rate, loss = case.off(policy, given.trials)
    size = case.deviation(policy) * case.width
    right = _percent(result.within(case.within))
    return Answer(
        list(zip(arms.labels, means, recommended, strict=True)),
        above=case.note,
        below=[
            f"The best arm, {case.best}, was recommended in {result.successes} of {result.trials} "
            f"runs: {_percent(result.success_rate)} (simulation error: {_percent(low)} to "
            f"{_percent(high)}).",
            f"An arm at most {given.within:g} below it: {right} of runs." if given.within else None,
            f"Mean loss of the answer, against the best mean: {result.regret * case.width:.4g}.",
            f"Pulls used: at most {result.pulls} of {policy.budget}.",
            advice.model(policy),
            f"If means deviate from those in the table by about {size:g}, the best arm is "
            f"found in {_percent(rate)} of runs, and the mean loss is {loss:.3g}.",
        ],
        draw=lambda: field.figures.recommended_counts(arms.labels, recommended, instance.best),
    )


def run_study(given: argparse.Namespace) -> Answer:
    """Compare policies over budgets and epsilons."""
    arms, makers = tables.read_arms(given), arguments.makers(given)
    if given.figure and arguments.NOT_PRIVATE in given.policies and len(makers) == 1:
        raise ValueError(f"--figure needs a policy with an epsilon, besides {given.policies[0]}")
    if given.figure and given.along == "epsilon" and math.inf in given.epsilons:
        raise ValueError("--along epsilon needs finite --epsilons, because the axis is logarithmic")
    case = assumed(given, arms)
    with _workers(given.jobs) as executor:
        frame = study(
            {arguments.POLICIES[name][0]: maker for name, maker in makers.items()},
            case.instance,
            budgets=given.budgets,
            epsilons=given.epsilons,
            trials=given.trials,
            seed=given.seed,
            within=case.within,
            executor=executor,
            path=given.cells,
            progress=sys.stderr.isatty(),
        )
    frame["regret"] *= case.width
    say(*case.note)
    show(_STUDY_SHOWN, frame[_STUDY_SHOWN].to_numpy(object).tolist())
    return Answer(
        frame.to_numpy(object).tolist(),
        columns=list(frame.columns),
        draw=lambda: field.figures.success_curves(frame, along=given.along),
        shown=False,
    )


@contextmanager
def _workers(jobs: int) -> Iterator[Executor | None]:
    """Start worker processes, none for one job; an interrupt of this process ends them at once."""
    if jobs == 1:
        yield None
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    ours = threading.current_thread() is threading.main_thread()  # only it can set handlers
    handler = signal.getsignal(signal.SIGINT)
    try:
        # Only this process handles Ctrl-C, and ends the workers, which inherit that it is ignored.
        if ours:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        for _ in range(jobs):
            pool.submit(int)
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in active_children():
            worker.terminate()
        raise
    finally:
        pool.shutdown()
        if ours:
            signal.signal(signal.SIGINT, handler)


def least_budget(given: argparse.Namespace) -> Answer:
    """Find the least budget for a given success probability, with and without privacy."""
    arms, makers = tables.read_arms(given), arguments.makers(given)
    case = assumed(given, arms)
    epsilons = sorted({*given.epsilons} - {math.inf})
    say(*case.note, f"Least budget for which {case.right}:")
    print(_BUDGET_ROW.format(*given.columns))
    rows: list[tuple[Any, ...]] = []
    failed: list[str] = []
    policies: list[tuple[str, Policy, str]] = []
    for name, maker in makers.items():
        free, private = None, takes_epsilon(maker)
        for epsilon in (math.inf, *(epsilons[::-1] if private else ())):
            make = partial(maker, arms.features, **({"epsilon": epsilon} if private else {}))
            at = f"epsilon = {epsilon:g}"
            try:
                found, policy = case.searched(smallest_budget, "budget", make)
            except SearchError:
                less = " or less" if epsilon < math.inf and epsilon > epsilons[0] else ""
                failed.append(
                    f"no budget up to {_MOST_PULLS:g} is enough for "
                    f"{name}{f' at {at}{less}' * private}"
                )
                break
            free = free or found
            odds, price = _odds(epsilon), found.budget / free.budget
            loss = case.run(policy, _LOSS_TRIALS).regret * case.width
            rows.append((name, epsilon, odds, *astuple(found), price, loss))
            policies.append((name, policy, at if epsilon in epsilons else ""))
            # Searches by simulation leave a range.
            least = f"{(found.too_small + 1) / free.budget:.3g}"
            most = f"{found.budget / (free.too_small + 1):.3g}"
            shown = f"{least}-{most}" if least != most else f"{price:.3g}"
            cells = (name, f"{epsilon:g}", f"{odds:.4g}", *(f"{n:.10g}" for n in astuple(found)))
            cells = (*cells, "1" if found is free else shown, f"{loss:.2g}")
            print(_BUDGET_ROW.format(*cells), flush=True)
    cheapest = [
        f"{min(alike)[1]} at epsilon = {epsilon:g}"
        for epsilon in epsilons
        if len(alike := [(row[3], row[0]) for row in rows if row[1] == epsilon]) > 1
    ]
    say(f"Cheapest: {', '.join(cheapest)}." if cheapest else None)
    say(*case.closing(policies, epsilons))
    budgets = [(row[0], row[1], row[3]) for row in rows]
    return Answer(
        rows or None,
        draw=(lambda: field.figures.least_budgets(budgets)) if rows else None,
        shown=False,
        failed=failed,
        remedy="try a smaller --success, or larger --epsilons, --within or --trials",
    )


def least_epsilon(given: argparse.Namespace) -> Answer:
    """Find the least epsilon for a given success probability, at each budget."""
    if arguments.NOT_PRIVATE in given.policies:
        raise ValueError(f"--policies must be private, and {arguments.NOT_PRIVATE} is not")
    arms, makers = tables.read_arms(given), arguments.makers(given)
    case = assumed(given, arms)
    rows: list[tuple[Any, ...]] = []
    failed: list[str] = []
    policies: list[tuple[str, Policy, str]] = []
    for budget in sorted(set(given.budgets)):
        for name, maker in makers.items():
            make = partial(maker, arms.features, budget=budget)
            try:
                found, policy = case.searched(smallest_epsilon, "epsilon", make)
            except SearchError:
                are = "is" if budget == 1 else "are"
                failed.append(
                    f"{plural(budget, 'pull')} {are} not enough for {name} at any epsilon"
                )
                continue
            odds = _odds(found.epsilon)
            rows.append((name, budget, found.epsilon, odds, found.too_small, found.confidence))
            policies.append((name, policy, plural(budget, "pull")))
    return Answer(
        rows or None,
        above=[*case.note, f"Least epsilon for which {case.right}:"],
        below=case.closing(policies, [row[2] for row in rows]),
        failed=failed,
        remedy="try a smaller --success, or larger --budgets, --within or --trials",
    )


def _odds(epsilon: float) -> float:
    return math.inf if epsilon > _LARGEST_EXPONENT else math.exp(epsilon)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _rate(rate: float, low: float, high: float) -> str:
    error = "" if low == high else f" (simulation error: {low:.3g} to {high:.3g})"
    return f"{rate:.3g}{error}"


COMMANDS: dict[str, Callable[[argparse.Namespace], Answer]] = {
    "simulate": run_simulation,
    "study": run_study,
    "budget": least_budget,
    "epsilon": least_epsilon,
}
