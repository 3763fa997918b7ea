"""The commands that suppose means: simulate, study, budget, epsilon; and --gap of plan."""

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
from functools import partial
from importlib import import_module
from multiprocessing import active_children, get_context
from typing import Any

import numpy as np
from tqdm import tqdm

from dpbai import _check
from dpbai.beyond import gaps
from dpbai.beyond.dp_design import MISFIT
from dpbai.beyond.planning import SearchError, smallest_budget, smallest_epsilon
from dpbai.exact import NotExactError, exact_success
from dpbai.field.cli import advice, arguments, tables
from dpbai.field.cli.commands import BUDGET_COLUMNS, EPSILON_COLUMNS
from dpbai.field.cli.sheets import nearest, quoted
from dpbai.field.cli.tables import Answer, Arms, Table, say
from dpbai.field.session.rewards import Range
from dpbai.instance import Instance
from dpbai.phase import Policy
from dpbai.simulate import Simulation, simulate
from dpbai.study import study, takes_epsilon

_MOST_ARMS = 40  # looked at as the best arm
_MOST_MEANS = 12  # printed
_LOSS_TRIALS, _OFF_TRIALS = 1000, 200
_LEAST_TRIALS = 200  # for each arm that may be the best
_TABLES = 20  # of means that are off from linear ones
_MOST_PULLS = 10**9  # the default of the search
_LARGEST_EXPONENT = 700.0
_BUDGET_ROW = "{:<13}{:>8}{:>10}{:>9}{:>10}{:>11}{:>11}{:>8}"
_STUDY_SHOWN = [
    "policy", "budget", "epsilon", "trials", "success_rate", "low", "high", "regret", "within",
]  # what 80 columns hold  # fmt: skip
_MEANING = (
    "What epsilon means: two sets of rewards are neighbours if they differ in one reward of one "
    "pull. An observer of everything that a run releases, who knows all rewards but one, can "
    "improve the odds of a guess about that one by a factor of at most e^epsilon (for "
    "dp-bai-gauss: up to a further probability of delta). A guess that was right with probability "
    "50 % is right with at most"
)


@dataclass(frozen=True)
class Supposed:
    """Supposed means of arms, and which answers are right: those at most `within` below the best.

    `means` says what is supposed if --gap is given. Lengths are in the units of rewards, except in
    `instance`.
    """

    given: argparse.Namespace
    labels: Sequence[str]
    instance: Instance
    means: list[str]

    @property
    def width(self) -> float:
        """The length of the reward range."""
        return float(self.given.reward_range.width)

    @property
    def within(self) -> float:
        """How far below the best mean a right answer may be, for rewards in [0, 1]."""
        return float(self.given.within / self.width)

    @property
    def best(self) -> str:
        """The names of the best arms."""
        return " or ".join(quoted(self.labels[arm]) for arm in self.instance.ties)

    @property
    def right(self) -> str:
        """Which answers are right, and how often they are wanted."""
        gaps = self.instance.gaps
        lead = self.width * min(gaps[gaps > 0], default=0.0)
        right = f"{self.best} (ahead by {lead:.4g})"
        if self.within:
            right = f"at most {self.given.within:g} below {self.best}"
        return f"an answer that is {right} with probability {self.given.success:g}"

    @property
    def search(self) -> dict[str, Any]:
        """The options of a search."""
        return {
            "error": 1 - self.given.success,
            "within": self.within,
            "trials": self.given.trials,
            "seed": self.given.seed,
            "progress": sys.stderr.isatty(),
        }

    @property
    def deviation(self) -> float:
        """By how much means may be off, for rewards in [0, 1]: --misfit, or its default."""
        return float(self.given.misfit) if 0 < (self.given.misfit or 0) <= 1 else MISFIT

    def run(self, policy: Policy, trials: int | None = None) -> Simulation:
        """Simulate a policy."""
        trials = trials or self.given.trials
        return simulate(policy, self.instance, trials=trials, seed=self.given.seed)

    def success(self, policy: Policy, trials: int) -> tuple[float, float, float]:
        """Return the success probability and an interval of it, a point if it is exact."""
        if not self.within:
            with suppress(NotExactError):
                exact = exact_success(policy, self.instance)
                return exact, exact, exact
        result = self.run(policy, trials)
        return (result.within(self.within), *result.interval(within=self.within))

    def off(self, policy: Policy, trials: int) -> tuple[float, float]:
        """Return success and mean loss if means deviate from those of `instance`."""
        law = arguments.REWARDS[vars(self.given).get("rewards", "bernoulli")]
        rng, found = _check.generator(self.given.seed), []
        for seed in range(_TABLES):
            deviations = self.deviation * rng.standard_normal(self.instance.arms)
            means = (self.instance.means + deviations).clip(law.lowest, law.highest)
            laws = [law.make(mean) for mean in means.tolist()]
            deviating = Instance(self.instance.features, rewards=laws, unique=False)
            result = simulate(policy, deviating, trials=max(1, trials // _TABLES), seed=seed)
            found.append((result.within(self.within), result.regret))
        success, loss = np.mean(found, axis=0).tolist()
        return success, loss * self.width


def supposed(given: argparse.Namespace, arms: Arms) -> Supposed:
    """Return the means of --means, or of --gap: those with the smallest gaps in all."""
    scale = given.reward_range
    if given.means is None:
        return min(leading(given, arms), key=lambda case: float(case.instance.gaps.sum()))
    if given.best is not None:
        raise ValueError("--best goes with --gap, not with --means")
    law, laws = arguments.REWARDS[given.rewards], []
    for label, mean in zip(arms.labels, tables.read_means(given, arms.labels), strict=True):
        inside = (mean - scale.low) / scale.width
        if not law.lowest <= inside <= law.highest:
            low, high = map(scale.shown, (law.lowest, law.highest))
            raise ValueError(
                f"mean of arm {label!r} must lie in [{low:g}, {high:g}] for {given.rewards} "
                f"rewards, got {mean:g}"
            )
        laws.append(law.make(inside))
    return Supposed(given, arms.labels, Instance(arms.features, rewards=laws, unique=False), [])


def leading(given: argparse.Namespace, arms: Arms) -> list[Supposed]:
    """Return means with which an arm leads by --gap: --best, or each arm, or a spread of many."""
    labels, features = arms.labels, arms.features
    if given.best is not None and given.best not in labels:
        near = nearest(given.best, labels)
        raise ValueError(f"--best must be one of the arms, got {given.best!r}{near}")
    scale = given.reward_range
    gap = given.gap / scale.width
    if gap < gaps.SMALLEST:
        raise ValueError(
            f"--gap must be at least {gaps.SMALLEST * scale.width:g}, a millionth of the reward "
            f"range, got {given.gap:g}: no budget is large enough to see a smaller one"
        )
    spread = np.linspace(0, len(labels) - 1, min(len(labels), _MOST_ARMS))
    tried = [labels.index(given.best)] if given.best is not None else [int(arm) for arm in spread]
    # Plans have no law of rewards: those of 0 and 1 are the ones that vary most.
    law = arguments.REWARDS[vars(given).get("rewards", "bernoulli")]
    limits = law.lowest, law.highest
    found = [gaps.closest(features, arm, gap, *limits) for arm in tried]
    instances = [
        Instance(features, rewards=[law.make(mean) for mean in means.tolist()])
        for means in found
        if means is not None
    ]
    if not instances:
        low, high = map(scale.shown, limits)
        most = scale.width * max(gaps.largest(features, arm, *limits) for arm in tried)
        one = given.best is not None
        which = f"arm {quoted(given.best)} cannot" if one else "no arm can"
        linear = "with means that are linear in these features"
        if most < gaps.SMALLEST * scale.width:
            more = ", or another arm by --best" if one else ""
            if not tables.has_constant(features):
                more += ", or add a constant by --intercept"
            raise ValueError(
                f"--gap needs an arm that can lead, and {linear} and lie in [{low:g}, {high:g}], "
                f"{which} be ahead of all others: choose other features{more}"
            )
        raise ValueError(
            f"--gap must be at most {most:.3g}, got {given.gap:g}: {linear} and lie in [{low:g}, "
            f"{high:g}], {which} lead by more"
        )
    return [
        Supposed(given, labels, instance, [_supposed_means(labels, instance, scale)])
        for instance in instances
    ]


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
    more = f", and {most}; other arms are between these" if len(cases) > 1 else ""
    loss, off = hardest.run(policy, trials).regret * scale.width, hardest.off(policy, trials)
    texts = [
        f"If the best arm leads by {given.gap:g} (rewards {scale.low:g} and {scale.high:g}, the "
        f"other means as close as linear means can be), {found} {least}{more}.",
        f"The mean loss of the answer is then {loss:.3g}.",
        f"If means are off from such linear ones by about {hardest.deviation * scale.width:g}, the "
        f"best of them is found with probability {off[0]:.2g}, and the mean loss is {off[1]:.3g}.",
        *hardest.means,
    ]
    if given.best is None:
        count = len(arms.labels)
        if (looked := min(count, _MOST_ARMS)) < count:
            texts.append(f"(Of {count} arms, {looked} were tried as the best arm.)")
        if cannot := looked - len(cases):
            texts.append(f"({cannot} arm(s) cannot lead by so much with linear means.)")
    return texts


def simulated(given: argparse.Namespace) -> Answer:
    """Run a policy many times on supposed means."""
    arms = tables.read_arms(given)
    policy, case = arguments.policy(given, arms.features), supposed(given, arms)
    result, instance = case.run(policy), case.instance
    recommended = result.recommended.tolist()
    means = map(given.reward_range.shown, instance.means.tolist())
    low, high = result.interval()
    rate, loss = case.off(policy, given.trials)
    within = f"At most {given.within:g} below it: {result.within(case.within):.4g} of the runs."
    return Answer(
        Table(
            ["arm", "mean", "recommended"],
            list(zip(arms.labels, means, recommended, strict=True)),
            partial(_drawn_recommended, arms.labels, recommended, instance.best),
        ),
        above=case.means,
        below=[
            f"The best arm, {case.best}, was recommended in {result.successes} of {result.trials} "
            f"runs: {result.success_rate:.4g} (simulation error: {low:.4g} to {high:.4g}).",
            *([within] if given.within else []),
            f"Mean loss of the answer: {result.regret * case.width:.4g}.",
            f"Pulls: at most {result.pulls} of {policy.budget}.",
            advice.model(policy),
            f"If means are off from those of the table by about {case.deviation * case.width:g}, "
            f"the best of them is found in {rate:.2g} of the runs, and the mean loss is "
            f"{loss:.3g}.",
        ],
    )


def studied(given: argparse.Namespace) -> Answer:
    """Compare policies over budgets and epsilons."""
    arms, makers = tables.read_arms(given), arguments.makers(given)
    if given.figure and arguments.NOT_PRIVATE in given.policies and len(makers) == 1:
        raise ValueError(f"--figure needs a policy beside {given.policies[0]} that has an epsilon")
    if given.figure and given.along == "epsilon" and math.inf in given.epsilons:
        raise ValueError("--along epsilon needs finite --epsilons, to draw them on a log axis")
    case = supposed(given, arms)
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
    for text in case.means:
        say(text)
    tables.show(Table(_STUDY_SHOWN, frame[_STUDY_SHOWN].to_numpy(object).tolist()))
    table = Table(
        list(frame.columns),
        frame.to_numpy(object).tolist(),
        lambda: import_module("dpbai.field.figures").success_curves(frame, along=given.along),
    )
    return Answer(table, shown=False)


@contextmanager
def _workers(jobs: int) -> Iterator[Executor | None]:
    """Open so many processes, or none for one; what interrupts this one ends them at once."""
    if jobs == 1:
        yield None
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    ours = threading.current_thread() is threading.main_thread()  # others set no handlers
    handler = signal.getsignal(signal.SIGINT)
    try:
        # Ctrl-C is for this process, which ends the others: they inherit that they ignore it.
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


def budgeted(given: argparse.Namespace) -> Answer:
    """Find the least budget for a wanted success, with privacy and without."""
    arms, makers = tables.read_arms(given), arguments.makers(given)
    case = supposed(given, arms)
    epsilons = sorted({*given.epsilons} - {math.inf})
    for text in (*case.means, f"Least budget for {case.right}:"):
        say(text)
    print(_BUDGET_ROW.format(*BUDGET_COLUMNS))
    off: list[str] = []
    models: dict[str, None] = {}
    rows: list[tuple[Any, ...]] = []
    for name, maker in makers.items():
        free = None
        private = takes_epsilon(maker)
        for epsilon in (math.inf, *(epsilons[::-1] if private else ())):
            options = {"epsilon": epsilon} if private else {}
            make = _with("budget", partial(maker, arms.features, **options))
            try:
                found = smallest_budget(make, case.instance, **case.search)
            except SearchError as error:
                at = f" at epsilon = {epsilon:g}" if options else ""
                raise SearchError(
                    f"no budget up to {_MOST_PULLS:g} is enough for {name}{at}: ask for less by "
                    "--success or --within, or for a larger epsilon"
                ) from error
            free, policy = free or found, make(found.budget)
            odds, price = _odds(epsilon), found.budget / free.budget
            loss = case.run(policy, _LOSS_TRIALS).regret * case.width
            rows.append((name, epsilon, odds, *astuple(found), price, loss))
            models[advice.model(policy, name)] = None
            if epsilon in epsilons:
                rate = case.off(policy, _OFF_TRIALS)[0]
                off.append(f"{name} {rate:.2g} at epsilon = {epsilon:g}")
            # Two searches by simulation leave a range.
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
    for text in (
        *([f"Cheapest: {', '.join(cheapest)}."] if cheapest else []),
        *_models(case, models, off),
        *(_meaning(epsilons) if any(row[1] < math.inf for row in rows) else []),
    ):
        say(text)
    return Answer(Table(BUDGET_COLUMNS, rows, partial(_drawn_budgets, rows)), shown=False)


def private(given: argparse.Namespace) -> Answer:
    """Find the least epsilon for a wanted success, at each budget."""
    if arguments.NOT_PRIVATE in given.policies:
        raise ValueError(f"--policies must be private, and {arguments.NOT_PRIVATE} is not")
    arms, makers = tables.read_arms(given), arguments.makers(given)
    case = supposed(given, arms)
    rows: list[tuple[Any, ...]] = []
    off: list[str] = []
    models: dict[str, None] = {}
    for budget in sorted(set(given.budgets)):
        for name, maker in makers.items():
            make = _with("epsilon", partial(maker, arms.features, budget=budget))
            try:
                found = smallest_epsilon(make, case.instance, **case.search)
            except SearchError as error:
                raise SearchError(
                    f"{budget} pulls are not enough for {name} at any epsilon: give a larger "
                    "--budget, or ask for less by --success or --within"
                ) from error
            odds, policy = _odds(found.epsilon), make(found.epsilon)
            rows.append((name, budget, found.epsilon, odds, found.too_small, found.confidence))
            models[advice.model(policy, name)] = None
            off.append(f"{name} {case.off(policy, _OFF_TRIALS)[0]:.2g} at {budget} pulls")
    return Answer(
        Table(EPSILON_COLUMNS, rows),
        above=[*case.means, f"Least epsilon for {case.right}:"],
        below=[*_models(case, models, off), *_meaning([row[2] for row in rows])],
    )


def _with(option: str, make: Callable[..., Policy]) -> Callable[[Any], Policy]:
    """Return what makes a policy of the value of one option."""
    return lambda value: make(**{option: value})


def _models(case: Supposed, models: Iterable[str], off: Sequence[str]) -> list[str]:
    """Return what policies assume of the means, and how often they are right if means are off."""
    if not off:
        return [*models]
    means = "that are linear in the features" if case.given.means is None else "as given"
    return [
        *models,
        f"The table is for means {means}. If they are off by about {case.deviation:g} of the "
        f"reward range, an answer is right with probability: {', '.join(off)}.",
    ]


def _odds(epsilon: float) -> float:
    return math.inf if epsilon > _LARGEST_EXPONENT else math.exp(epsilon)


def _meaning(epsilons: Iterable[float]) -> list[str]:
    """Return what epsilons mean."""
    return [
        "",
        _MEANING,
        *(
            f"  {100 / (1 + math.exp(-epsilon)):.3g} % at epsilon = {epsilon:.4g}"
            for epsilon in sorted(set(epsilons))
        ),
        "If one person gives several rewards, multiply epsilon by their number.",
    ]


def _supposed_means(labels: Sequence[str], instance: Instance, scale: Range) -> str:
    """Return supposed means from the best down, of many arms the first ones and the last."""
    means = [scale.shown(mean) for mean in instance.means.tolist()]
    # Equal means, up to rounding of the linear programs, in the order of the table.
    order = np.argsort(-instance.means.round(6), kind="stable").tolist()
    entries = [f"{quoted(labels[arm])} {means[arm]:.3g}" for arm in order]
    if len(entries) > _MOST_MEANS:
        entries[_MOST_MEANS - 2 : -1] = ["..."]
    return f"Means taken for --gap: {', '.join(entries)}"


def _rate(rate: float, low: float, high: float) -> str:
    error = "" if low == high else f" (simulation error: {low:.3g} to {high:.3g})"
    return f"{rate:.3g}{error}"


def _drawn_budgets(rows: Sequence[tuple[Any, ...]]) -> Any:
    from dpbai.field.figures.canvas import canvas

    with canvas() as (figure, axes):
        for name in dict.fromkeys(row[0] for row in rows):
            (_, free), *private = [(row[1], row[3]) for row in rows if row[0] == name]
            (line,) = axes.plot(*np.reshape(private, (-1, 2)).T, marker="o", label=name)
            axes.axhline(free, color=line.get_color(), linestyle="--", linewidth=1)
        axes.set(xlabel="epsilon (smaller is more private)", xscale="log", yscale="log")
        ticks = sorted({row[1] for row in rows if row[1] < math.inf})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
        axes.set_ylabel("least budget (dashed: without privacy)")
        axes.legend()
    return figure


def _drawn_recommended(labels: Sequence[str], recommended: Sequence[int], best: int) -> Any:
    from dpbai.field.figures.canvas import BLUE, GREY
    from dpbai.field.figures.own_arms import MOST_ROWS, rows_of_arms

    arms = sorted(range(len(labels)), key=lambda arm: (arm != best, -recommended[arm]))
    arms = sorted(arms[:MOST_ROWS])
    with rows_of_arms([labels[arm] for arm in arms]) as (figure, (panel,)):
        colors = [BLUE if arm == best else GREY for arm in arms]
        panel.barh(range(len(arms)), [recommended[arm] for arm in arms], color=colors)
        rest = "" if len(arms) == len(labels) else "; arms recommended less are left out"
        panel.set_xlabel(f"runs that recommended the arm (the best one in blue{rest})")
    return figure


COMMANDS: dict[str, Callable[[argparse.Namespace], Answer]] = {
    "simulate": simulated,
    "study": studied,
    "budget": budgeted,
    "epsilon": private,
}
