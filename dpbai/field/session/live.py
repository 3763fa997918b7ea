"""A policy on real rewards: which arms to pull, what was released, and what it cost in privacy.

A `Session` executes the plans of its policy phase by phase. Of the rewards it keeps the exact sum
and the number for each arm and each batch. When a phase is complete it draws the noise, saves the
released statistic, and only then shows it; by then the sums have been deleted from the session and
from its file. During a phase the file holds sums (and that of a single reward is this reward):
protect it like the rewards. Between phases it holds only what the guarantee covers.

The guarantee is for one reward, and for a file that is never set back: a run that continues from an
older copy releases the same rewards again with new noise, and the losses of both releases add up.
The file `<path>.lock` counts the released phases, so that an older copy in the place of the file is
refused, and so is a file with a second name (a hard link). A copy under another name or on another
machine, or one that was put back together with the lock file, cannot be noticed. A session in
memory cannot be copied, nor continue in two processes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NoReturn, Self

from numpy.typing import ArrayLike

from dpbai import _check
from dpbai.certificate import Certificate, certify
from dpbai.field.session.interval import Interval, half_widths, standard_deviations
from dpbai.field.session.records import Batch, Label, Released, SessionError
from dpbai.field.session.releases import chosen
from dpbai.field.session.rewards import UNIT, Range, Sum, array_sum, stated_sum
from dpbai.field.session.run import Run
from dpbai.field.session.store import Store
from dpbai.noise import Mechanism
from dpbai.phase import Phase, Policy


class Session:
    """A live run of a policy.

    Parameters
    ----------
    policy : Policy
        What to run. To be saved it must be a dataclass, as the policies of this library are.
    noise : Mechanism, optional
        Draws the noise: `OpenDPNoise` by default; `NumpyNoise` for simulations, with a
        `ReleaseWarning`.
    path : path-like, optional
        A new file, in which each step is saved. Without it the session is in memory only.
    labels : sequence of int or str, optional
        Names of the arms, in the order of the features; 0, ..., K-1 by default. They are kept as
        plain integers and strings, with accents in one normal form.
    reward_range : (float, float), default (0, 1)
        The least and the largest possible reward, fixed before any reward is seen. Rewards are
        mapped to [0, 1], where the policy works, and estimates mapped back. (Means in [0, 1] are
        then linear in the features only if some combination of the features is constant.)
    population : str, optional
        A public name for the people who give the rewards, for `dpbai.field.session.ledger`: runs
        with the same name share people, runs with different names do not. It is saved in the file.

    Raises
    ------
    ValueError, TypeError
        If labels are not K names that differ as text and have no control characters, the range is
        none, the policy cannot be saved, or `noise` cannot draw what the policy plans.
    FileExistsError
        If there is a file at `path`; `Session.resume` continues with it.
    SessionConflictError
        From `record`, `record_sums`, `undo`, `end_phase` and `withdraw`, if another process has
        changed the file since it was read here.

    Examples
    --------
    >>> session = Session(policy)  # doctest: +SKIP
    >>> while session.requests:  # doctest: +SKIP
    ...     session.record({arm: ask(arm, pulls) for arm, pulls in session.requests.items()})
    >>> session.recommendation, session.certificate.epsilon  # doctest: +SKIP

    A web service records rewards one by one, each saved before the next:

    >>> session = Session.resume("run.json")  # doctest: +SKIP
    >>> session.record({"blue": [1]}, batch="visit 4711")  # doctest: +SKIP
    """

    def __init__(
        self,
        policy: Policy,
        *,
        noise: Mechanism | None = None,
        path: str | os.PathLike[str] | None = None,
        labels: Sequence[Label] | None = None,
        reward_range: tuple[float, float] = (0, 1),
        population: str | None = None,
    ) -> None:
        run = Run.of(policy, chosen(noise), labels, reward_range, population)
        self._hold(run, None if path is None else Store(path), None)
        self._step(lambda run: run.next().advanced())

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        policy: Policy | None = None,
        *,
        noise: Mechanism | None = None,
    ) -> Self:
        """Continue with the session in the file at `path`.

        Parameters
        ----------
        path : path-like
            The file.
        policy : Policy, optional
            Must be the one that the file was made for. By default it is made from the file, if its
            class is one of this library.
        noise : Mechanism, optional
            Of the same kind as before; by default `OpenDPNoise` or unseeded `NumpyNoise`.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        SessionError
            If the file was cut short, edited, made for another policy or by another version, or is
            older than what was released.
        """
        store = Store(path)
        run, data = store.load(policy, noise)
        chosen(run.noise)  # which warns
        session = cls.__new__(cls)
        session._hold(run, store, data)
        return session

    def _hold(self, run: Run, store: Store | None, data: bytes | None) -> None:
        self.policy, self.noise, self.labels = run.policy, run.noise, run.labels
        self.reward_range, self.population = run.reward_range, run.population
        self._at, self._store = (run, data), store
        self._mutex, self._process = threading.Lock(), os.getpid()

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError(
            "a session cannot be copied or pickled, because two copies would release the same "
            "rewards twice; use Session.resume to open its file in another process"
        )

    def __repr__(self) -> str:
        run, name, arms = self._run, type(self.policy).__name__, len(self.labels)
        if run.phase is None:
            best = run.finished[-1].survivors[0]
            return f"<Session: {name}, {arms} arms, finished, {best!r} recommended>"
        count = sum(count for _, count in run.totals.values())
        return (
            f"<Session: {name}, {arms} arms, {len(run.phase.active)} in play, phase "
            f"{run.phase.index} has {count} of {run.phase.cost} rewards>"
        )

    @property
    def _run(self) -> Run:
        """The run. Read it once to see one state of it while other threads change it."""
        return self._at[0]

    @property
    def phase(self) -> Phase | None:
        """The plan of the current phase, or None when the session is finished.

        It is for rewards mapped to [0, 1], and so is its noise; `deviations` are in their units.
        """
        return self._run.phase

    @property
    def requests(self) -> dict[Label, int]:
        """How many rewards of each arm are missing in the current phase; empty at the end."""
        return self._run.requests

    @property
    def finished(self) -> bool:
        """Whether one arm is left."""
        return self._run.phase is None

    @property
    def recommendation(self) -> Label | None:
        """The arm that is left, or None as long as there are more."""
        run = self._run
        return run.finished[-1].survivors[0] if run.phase is None else None

    @property
    def released(self) -> tuple[Released, ...]:
        """What each finished phase released."""
        return self._run.finished

    @property
    def batches(self) -> dict[str, Batch]:
        """The recorded batches by name: the phase, and the number of rewards of each arm."""
        return dict(self._run.batches)

    @property
    def withdrawn(self) -> tuple[Label, ...]:
        """The arms that were withdrawn."""
        return self._run.withdrawn

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The plans of the finished phases, as they were executed."""
        return self._run.past

    @property
    def estimates(self) -> dict[Label, float]:
        """The private estimates of the means, each from the last finished phase that has one."""
        return {
            label: estimate
            for released in self._run.finished
            for label, estimate in zip(released.active, released.estimates, strict=True)
        }

    @property
    def deviations(self) -> dict[Label, float]:
        """The standard deviations of the noise in `estimates`, by the plans alone."""
        past = self._run.past
        return {
            self.labels[arm]: float(deviation) * self.reward_range.width
            for number, phase in enumerate(past, start=1)
            for arm, deviation in zip(phase.active, standard_deviations(past[:number]), strict=True)
        }

    @property
    def certificate(self) -> Certificate:
        """The guarantee of the session for one reward, with remarks on its noise.

        Policies other than DP-BAI, its relatives and DPDesign plan many active sets for this.
        """
        return self.group_certificate(1)

    def group_certificate(self, group: int) -> Certificate:
        """Return the guarantee for `group` rewards, such as all those that one person gave.

        Raises
        ------
        ValueError
            If `group` is less than 1, or the noise is neither Laplace nor Gaussian.
        """
        run, group = self._run, _check.whole(group, "group")
        promised = run.promised(group=group)
        if group == 1:
            promised = promised.after(run.stated, (), ())
        notes = [remark for released in run.finished for remark in released.remarks]
        if run.reward_range != UNIT:
            notes.append(f"rewards lie in {run.reward_range}, and are mapped to {UNIT}")
        plans = [*run.past, *([run.phase] if run.phase else [])]
        visited = certify(plans, mechanism=run.noise, group=group)
        return promised.after(visited, [released.epsilon for released in run.finished], notes)

    def interval(self, confidence: float = 0.95, misfit: float | None = None) -> Interval:
        """Return an interval for the mean of the recommended arm, from what was released alone.

        It allows for the choice of the arm: whichever is recommended, in a share of at least
        `confidence` of runs the interval contains its mean. It does not state how likely this arm
        is the best.

        Parameters
        ----------
        confidence : float, default 0.95
            Strictly between 0 and 1.
        misfit : float, optional
            Where estimates use the features, means are assumed to be linear in them, up to
            independent normal deviations of this standard deviation, in units of the reward range.
            By default that of the policy, which is 0 except for `DPDesign`.

        Raises
        ------
        ValueError
            If an argument is out of range.
        SessionError
            If the session is not finished, or its releases determine differences of means only.
        """
        run, confidence = self._run, _check.proportion(confidence, "confidence")
        misfit = getattr(run.policy, "misfit", 0.0) if misfit is None else misfit
        misfit = _check.non_negative(misfit, "misfit")
        if run.phase is not None:
            raise SessionError("the run is not finished, so no arm is recommended yet")
        last, counts = run.finished[-1], [released.pulls for released in run.finished]
        place = last.active.index(last.survivors[0])
        widths = half_widths(run.past, counts, run.policy.features, place, confidence, misfit)
        noise, sampling, deviations = (self.reward_range.width * width for width in widths)
        estimate, reach = last.estimates[place], noise + sampling + deviations
        return Interval(estimate - reach, estimate + reach, noise, sampling, deviations, confidence)

    def record(self, rewards: Mapping[Any, ArrayLike], *, batch: Label | None = None) -> None:
        """Record rewards of one or more arms: all of them, or none if any is refused.

        Parameters
        ----------
        rewards : mapping of label to array_like of shape (n,)
            Rewards in `reward_range` of arms in `requests`, no more than are missing.
        batch : int or str, optional
            A name for these rewards: another batch of this name is refused. In the current phase
            `undo` removes them. Names are public, and stay in the file.

        Raises
        ------
        ValueError, TypeError
            If any of them is refused. No message contains a reward.
        SessionError
            If the session is finished, or the batch was recorded already.
        """
        self._record(rewards, "rewards", array_sum, batch)

    def record_sums(
        self, sums: Mapping[Any, tuple[float | Fraction, int]], *, batch: Label | None = None
    ) -> None:
        """Record sums of rewards of one or more arms: all of them, or none if any is refused.

        Parameters
        ----------
        sums : mapping of label to (total, count)
            The sum of `count` rewards in `reward_range`, taken as exact, of arms in `requests`.
        batch
            As in `record`.

        Raises
        ------
        ValueError, TypeError, SessionError
            As in `record`. No message contains a sum.
        """
        self._record(sums, "sums", stated_sum, batch)

    def undo(self, batch: Label) -> None:
        """Remove a batch that was recorded by mistake in the current phase, and free its name.

        Its rewards are not asked for, so that nobody can test guesses about them.

        Raises
        ------
        ValueError, TypeError, SessionError
            If `batch` is not a name, there is no such batch, or its phase has been released.
        """
        self._step(lambda run: run.without(batch))

    def end_phase(self) -> None:
        """Release the current phase with the rewards recorded so far, if no more will come.

        Each arm that the phase pulls needs at least one reward. With fewer rewards, each moves the
        release further. So the noise is widened in proportion, which keeps the privacy loss at what
        was planned (see `shortened`), and estimates stay unbiased. The number of rewards is public.
        Decide this without looking at rewards, and only if whether a reward is missing does not
        depend on its value.

        Raises
        ------
        SessionError
            If the session is finished, or an arm has no reward.
        """
        self._step(Run.ended)

    def withdraw(self, arm: Label) -> None:
        """Stop asking for rewards of an arm that cannot be pulled any longer.

        Each of its missing rewards, in this and in later phases, counts as the middle of the range,
        a constant: every other reward moves the release as far as planned, with the noise that was
        planned, so the guarantee holds. Without any reward, the arm's part of the release is noise
        alone. Estimates of other arms that use it are biased towards the middle, for which
        `interval` allows. The arm is out at the end of the phase, unless too few others are left.
        That and when an arm was withdrawn is public: decide it without looking at rewards.

        Raises
        ------
        SessionError
            If the session is finished, the arm is neither in play nor pulled, or fewer than two
            arms would stay in play.
        """
        self._step(lambda run: run.withdrawing(arm))

    def _record(
        self, given: Any, name: str, summed: Callable[[Any, Range], Sum], batch: Label | None
    ) -> None:
        if not isinstance(given, Mapping):  # whose content, perhaps rewards, is not quoted
            raise TypeError(f"{name} must be a mapping from arms, got {type(given).__name__}")
        parts = [(label, summed(values, self.reward_range)) for label, values in given.items()]
        self._step(lambda run: run.with_rewards(parts, batch).advanced())

    def _step(self, step: Callable[[Run], Run]) -> None:
        """Take a step, save it, and only then show it: nobody sees noise that a crash may lose."""
        with self._mutex:
            run, data = step(self._run), None
            if self._store:
                data = self._store.save(run, *self._at)
            elif os.getpid() != self._process:
                raise SessionError(
                    "a session in memory continues only in the process that began it"
                )
            # One assignment. If this is interrupted before it, the session holds the bytes of a
            # file that has been replaced, and the store refuses to save it again.
            self._at = run, data
