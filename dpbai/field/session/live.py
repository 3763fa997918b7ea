"""Run a policy on real rewards: which arms to pull, what was released, and the privacy loss.

A `Session` executes the plans of its policy phase by phase. It stores rewards only as exact sums
and counts, for each arm and each named batch. When a phase is complete, it draws the noise, saves
the released statistic, and only then shows it. By then the sums have been deleted from the session
and from its file. During a phase the file contains sums, and the sum of a single reward is that
reward: protect the file like the rewards. Between phases it contains only what the guarantee
covers.

The guarantee is for one reward, and for a file that is never replaced by an older copy. A run that
continues from an older copy releases the same rewards again with new noise, and the losses of both
releases add up. The file `<path>.lock` counts the released phases, so that an older copy in the
place of the file is refused. A file with a second name (a hard link) is refused, too. A copy with
another name or on another machine, or a copy that was restored together with the lock file, cannot
be detected. A session in memory cannot be copied, and cannot continue in another process.
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
    """A run of a policy on real rewards.

    Parameters
    ----------
    policy : Policy
        The policy. To be saved it must be a dataclass, as the policies of this library are.
    noise : Mechanism, optional
        The source of the noise: `OpenDPNoise` by default. `NumpyNoise` is for simulations and gives
        a `ReleaseWarning`.
    path : path-like, optional
        A new file, in which each step is saved. By default the session is in memory only.
    labels : sequence of int or str, optional
        Names of the arms, in the order of the features; by default 0, ..., K-1. They are stored as
        plain integers and strings, in Unicode normal form C.
    reward_range : (float, float), default (0, 1)
        The smallest and the largest possible reward, chosen before any reward is seen. Rewards are
        mapped to [0, 1] for the policy, and estimates are mapped back. (Means in [0, 1] are then
        linear in the features only if some linear combination of the features is constant.)
    population : str, optional
        A public name for the people who give the rewards, for `dpbai.field.session.ledger`: runs
        with the same name may share people, runs with different names share nobody. It is saved in
        the file.

    Raises
    ------
    ValueError, TypeError
        If the labels are not K names that differ as text and contain no control characters, the
        range is not valid, the policy cannot be saved, or `noise` cannot draw the noise that the
        policy plans.
    FileExistsError
        If there is a file at `path`; `Session.resume` continues it.
    SessionConflictError
        From `record`, `record_sums`, `undo`, `end_phase` and `withdraw`, if another process has
        changed the file since this session read it.

    Examples
    --------
    >>> session = Session(policy)  # doctest: +SKIP
    >>> while session.requests:  # doctest: +SKIP
    ...     session.record({arm: ask(arm, pulls) for arm, pulls in session.requests.items()})
    >>> session.recommendation, session.certificate.epsilon  # doctest: +SKIP

    A web service records rewards one at a time, and saves each before the next:

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
        self._set_up(run, None if path is None else Store(path), None)
        self._step(lambda run: run.next().advanced())

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        policy: Policy | None = None,
        *,
        noise: Mechanism | None = None,
    ) -> Self:
        """Continue the session in the file at `path`.

        Parameters
        ----------
        path : path-like
            The file.
        policy : Policy, optional
            Must equal the policy that the file was made for. By default it is constructed from the
            file, if its class belongs to this library.
        noise : Mechanism, optional
            The same kind of noise as before; by default `OpenDPNoise` or unseeded `NumpyNoise`,
            whichever it was.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        SessionError
            If the file is incomplete, was edited, was made for another policy or by another
            version, or is older than the last release.
        """
        store = Store(path)
        run, data = store.load(policy, noise)
        chosen(run.noise)  # warns if the noise is for simulation only
        session = cls.__new__(cls)
        session._set_up(run, store, data)
        return session

    def _set_up(self, run: Run, store: Store | None, data: bytes | None) -> None:
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
        """The run. Read it only once in a method, as other threads may replace it."""
        return self._at[0]

    @property
    def phase(self) -> Phase | None:
        """The plan of the current phase, or None when the session is finished.

        Its noise is for rewards mapped to [0, 1]; `deviations` are in the units of the rewards.
        """
        return self._run.phase

    @property
    def requests(self) -> dict[Label, int]:
        """Number of missing rewards of each arm in the current phase; empty at the end."""
        return self._run.requests

    @property
    def finished(self) -> bool:
        """Whether one arm is left."""
        return self._run.phase is None

    @property
    def recommendation(self) -> Label | None:
        """The arm that is left, or None while there are several."""
        run = self._run
        return run.finished[-1].survivors[0] if run.phase is None else None

    @property
    def released(self) -> tuple[Released, ...]:
        """What each finished phase released."""
        return self._run.finished

    @property
    def batches(self) -> dict[str, Batch]:
        """The recorded batches by name, with their phase and number of rewards of each arm."""
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
        """The private estimates of the means, each from the last phase with the arm in play."""
        return {
            label: estimate
            for released in self._run.finished
            for label, estimate in zip(released.active, released.estimates, strict=True)
        }

    @property
    def deviations(self) -> dict[Label, float]:
        """The standard deviations of the noise in `estimates`, computed from the plans alone."""
        past = self._run.past
        return {
            self.labels[arm]: float(deviation) * self.reward_range.width
            for number, phase in enumerate(past, start=1)
            for arm, deviation in zip(phase.active, standard_deviations(past[:number]), strict=True)
        }

    @property
    def certificate(self) -> Certificate:
        """The guarantee of the session for one reward, with remarks on its noise.

        To compute it, policies other than DP-BAI, its variants and DPDesign plan phases for many
        active sets.
        """
        return self.group_certificate(1)

    def group_certificate(self, group: int) -> Certificate:
        """Return the guarantee for `group` rewards, for example all rewards of one person.

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
        """Return a confidence interval for the mean of the recommended arm, from releases alone.

        It accounts for the choice of the arm: whichever arm is recommended, the interval contains
        its mean with probability at least `confidence`. It does not state how likely it is that
        this arm is the best.

        Parameters
        ----------
        confidence : float, default 0.95
            Strictly between 0 and 1.
        misfit : float, optional
            If estimates use the features, means are assumed to be linear in them, up to
            independent normal deviations with this standard deviation, in units of the reward
            range. By default it is that of the policy, which is 0 except for `DPDesign`.

        Raises
        ------
        ValueError
            If an argument is out of range.
        SessionError
            If the session is not finished, or its releases do not determine the mean, but only sums
            or differences of means.
        """
        run, confidence = self._run, _check.proportion(confidence, "confidence")
        misfit = getattr(run.policy, "misfit", 0.0) if misfit is None else misfit
        misfit = _check.non_negative(misfit, "misfit")
        if run.phase is not None:
            raise SessionError(
                "the run is not finished, so no arm is recommended yet: see `Session.requests`"
            )
        last, counts = run.finished[-1], [released.pulls for released in run.finished]
        place = last.active.index(last.survivors[0])
        widths = half_widths(run.past, counts, run.policy.features, place, confidence, misfit)
        noise, sampling, deviations = (self.reward_range.width * width for width in widths)
        estimate, reach = last.estimates[place], noise + sampling + deviations
        return Interval(estimate - reach, estimate + reach, noise, sampling, deviations, confidence)

    def record(self, rewards: Mapping[Any, ArrayLike], *, batch: Label | None = None) -> None:
        """Record rewards of one or more arms. If any of them is refused, none is recorded.

        Parameters
        ----------
        rewards : mapping of label to array_like of shape (n,)
            Rewards in `reward_range` of arms in `requests`, no more than are missing.
        batch : int or str, optional
            A name for these rewards; a second batch with this name is refused. During the phase,
            `undo` removes the batch. Names are public, and stay in the file.

        Raises
        ------
        ValueError, TypeError
            If an arm, a reward or the name of the batch is refused. No message contains a reward.
        SessionError
            If the session is finished, or a batch with this name was recorded already.
        """
        self._record(rewards, "rewards", array_sum, batch)

    def record_sums(
        self, sums: Mapping[Any, tuple[float | Fraction, int]], *, batch: Label | None = None
    ) -> None:
        """Record sums of rewards of one or more arms. If any of them is refused, none is recorded.

        Parameters
        ----------
        sums : mapping of label to (total, count)
            The exact sum of `count` rewards in `reward_range`, for arms in `requests`.
        batch
            As in `record`.

        Raises
        ------
        ValueError, TypeError, SessionError
            As in `record`. No message contains a sum.
        """
        self._record(sums, "sums", stated_sum, batch)

    def undo(self, batch: Label) -> None:
        """Remove a batch of the current phase that was recorded by mistake; its name is free again.

        The rewards are not an argument, so that nobody can test guesses about them.

        Raises
        ------
        ValueError, TypeError
            If `batch` is not a valid name.
        SessionError
            If there is no such batch, or its phase has been released.
        """
        self._step(lambda run: run.without(batch))

    def end_phase(self) -> None:
        """Release the current phase with the rewards recorded so far, if no more will come.

        Each arm in `requests` needs at least one reward. With fewer rewards, each of them changes
        the release more. The noise is therefore widened in proportion, so that the privacy loss is
        the planned one; estimates remain unbiased. The number of rewards is public. Decide to end a
        phase without looking at rewards, and only if the value of a reward does not affect whether
        it is missing.

        Raises
        ------
        SessionError
            If the session is finished, or an arm has no reward.
        TypeError
            If the noise of the phase is of a law that is not part of this library.
        """
        self._step(Run.ended)

    def withdraw(self, arm: Label) -> None:
        """Stop requesting rewards of an arm that can no longer be pulled.

        Each of its missing rewards, in this and in later phases, counts as the middle of the range.
        This is a constant: every other reward changes the release as much as planned, and the noise
        is the planned one, so the guarantee holds. If the arm has no reward at all, its part of the
        release is a constant plus noise. Estimates of other arms that use it are biased towards the
        middle; `interval` accounts for this. The arm is eliminated at the end of the phase, unless
        too few other arms are left. It is public that and when an arm was withdrawn, so decide this
        without looking at rewards.

        Raises
        ------
        SessionError
            If the session is finished, the arm is neither in play nor pulled, or fewer than two
            arms would remain in play.
        """
        self._step(lambda run: run.withdrawing(arm))

    def _record(
        self, given: Any, name: str, summed: Callable[[Any, Range], Sum], batch: Label | None
    ) -> None:
        if not isinstance(given, Mapping):  # not quoted, as it may contain rewards
            raise TypeError(
                f"{name} must be a mapping from arms to {name}, got {type(given).__name__}"
            )
        parts = [(label, summed(values, self.reward_range)) for label, values in given.items()]
        self._step(lambda run: run.with_rewards(parts, batch).advanced())

    def _step(self, step: Callable[[Run], Run]) -> None:
        """Take a step, save it, and only then show it, so that a crash loses no noise once seen."""
        with self._mutex:
            run, data = step(self._run), None
            if self._store:
                data = self._store.save(run, *self._at)
            elif os.getpid() != self._process:
                raise SessionError(
                    "a session in memory continues only in the process that began it: give it a "
                    "`path`, and resume it from there"
                )
            # A single assignment. If an interrupt comes before it, the session still holds the
            # bytes of the file that was replaced, so the store refuses its next step.
            self._at = run, data
