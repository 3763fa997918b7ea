"""A policy on real rewards: which arms to pull, what came of them, and what it cost in privacy.

A `Session` follows the plan of its policy phase by phase. It keeps the sum and the number of the
rewards of each arm and of each batch, exactly, and nothing else of them. When a phase is complete
it draws the noise, saves the released statistic, and only then shows it; the sums are gone from the
session and from its file by then. So a phase that has begun is in the file as sums and counts (and
the sum of a single reward is that reward): keep the file as safe as the rewards until the phase is
complete. After that it holds what was released, and nothing that the guarantee does not cover.

The guarantee is for one reward: whoever sees all that a session releases learns no more about any
one reward than epsilon and delta allow. Phases use different rewards, so the guarantee of the whole
is that of the dearest phase.

It holds for a file that moves forward only. Gone on with from an older copy, a run would release
the same rewards again under new noise, and the two releases together cost the sum of their losses.
The file `<path>.lock`, which stays, knows how many phases were released: an older copy that was put
back in the place of the file is refused, and so is a file that has a second name (a hard link).
What nothing here can notice is a copy under another name or on another machine, or one that was put
back together with the lock file, or when that was removed. Move a run together with its lock file,
and let no copy go on. A session in memory cannot be copied, nor go on in two processes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NoReturn, Self

from numpy.typing import ArrayLike

from dpbai import _check
from dpbai.certificate import Certificate
from dpbai.field.session.interval import Interval
from dpbai.field.session.noise import chosen
from dpbai.field.session.records import Batch, Label, Released, SessionError
from dpbai.field.session.rewards import Range, Sum, array_sum, stated_sum
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
        Where noise comes from: `OpenDPNoise` by default; `NumpyNoise` for simulations, with a
        `ReleaseWarning`.
    path : path-like, optional
        A new file to save the session in, at each step. Without it the session lives in memory.
    labels : sequence of int or str, optional
        What to call the arms, in the order of the features; 0, ..., K-1 by default. Names are kept
        as plain integers and strings, with accents in one normal form.
    reward_range : (float, float), default (0, 1)
        The least and the largest possible reward, fixed before any reward is seen. Rewards are
        mapped to [0, 1], where the policy works, and estimates mapped back. (Means then are linear
        in the features if a constant is.)
    population : str, optional
        Whose rewards these are, for `dpbai.field.session.ledger`: runs with the same name share
        people, runs with different names do not. It stays in the file and is no secret.

    Raises
    ------
    ValueError, TypeError
        If labels are not K names that differ as text and have no control characters, the range is
        none, the policy cannot be saved, or `noise` cannot draw what the policy plans.
    FileExistsError
        If there is a file at `path`; `Session.resume` goes on with it.

    Examples
    --------
    >>> session = Session(policy)  # doctest: +SKIP
    >>> while session.requests:  # doctest: +SKIP
    ...     session.record({arm: ask(arm, pulls) for arm, pulls in session.requests.items()})
    >>> session.recommendation, session.certificate.epsilon  # doctest: +SKIP

    A web service takes rewards one by one, each saved before the next; if several processes do, see
    `SessionConflictError`:

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
        self._keep(run.next().advanced())

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        policy: Policy | None = None,
        *,
        noise: Mechanism | None = None,
    ) -> Self:
        """Go on with the session in the file at `path`.

        Parameters
        ----------
        path : path-like
            The file.
        policy : Policy, optional
            Must be the one that the file was made for. Left out, it is built from the file, if its
            class is one of this library.
        noise : Mechanism, optional
            Of the same kind as before; left out, that is `OpenDPNoise` or unseeded `NumpyNoise`.

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
        chosen(run.noise)  # and warned of
        session = cls.__new__(cls)
        session._hold(run, store, data)
        return session

    def _hold(self, run: Run, store: Store | None, data: bytes | None) -> None:
        self.policy, self.noise = run.policy, run.noise
        self.labels, self.reward_range = run.labels, run.reward_range
        self.population = run.population
        self._at, self._store = (run, data), store
        self._mutex, self._process = threading.Lock(), os.getpid()

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError(
            "a session is not copied or pickled, as two of one would release the same rewards "
            "twice; Session.resume opens its file in another process"
        )

    def __repr__(self) -> str:
        run, name, arms = self._run, type(self.policy).__name__, len(self.labels)
        if run.phase is None:
            return f"<Session: {name}, {arms} arms, finished, {run.recommendation!r} recommended>"
        return (
            f"<Session: {name}, {arms} arms, {len(run.phase.active)} in play, phase "
            f"{run.phase.index} has {sum(run.counts)} of {run.phase.cost} rewards>"
        )

    @property
    def _run(self) -> Run:
        """The run; whoever reads it once sees one state of it, whatever other threads do."""
        return self._at[0]

    @property
    def phase(self) -> Phase | None:
        """The plan of the phase under way, or None when the session is finished.

        It is for rewards mapped to [0, 1], and so is its noise; `deviations` are in their units.
        """
        return self._run.phase

    @property
    def requests(self) -> dict[Label, int]:
        """How many rewards of which arms are missing in the phase under way; empty at the end."""
        return self._run.requests

    @property
    def finished(self) -> bool:
        """Whether one arm is left."""
        return self._run.phase is None

    @property
    def recommendation(self) -> Label | None:
        """The arm that is left, or None as long as there are more."""
        return self._run.recommendation

    @property
    def released(self) -> tuple[Released, ...]:
        """What each finished phase released."""
        return self._run.finished

    @property
    def batches(self) -> dict[str, Batch]:
        """The batches that were recorded, by name: in which phase, and how many of each arm."""
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
        return self._run.estimates

    @property
    def deviations(self) -> dict[Label, float]:
        """The standard deviations of the noise in `estimates`, by the plans alone."""
        return self._run.deviations

    @property
    def certificate(self) -> Certificate:
        """The guarantee of the session for one reward, with what has to be said of its noise.

        Policies other than DP-BAI, its relatives and DPDesign plan many active sets for this.
        """
        return self._run.certificate()

    def group_certificate(self, group: int) -> Certificate:
        """Return the guarantee for `group` rewards, such as all those that one person gave.

        Raises
        ------
        ValueError
            If `group` is less than 1, or the noise is neither Laplace nor Gaussian.
        """
        return self._run.certificate(_check.whole(group, "group"))

    def interval(self, confidence: float = 0.95) -> Interval:
        """Return where the mean of the recommended arm lies, told by what was released alone.

        It allows for the choice of the arm: whichever is recommended, its mean lies within in a
        share of at least `confidence` of runs. Where estimates use the features, means must be
        linear in them; whether they are, a `dpbai.beyond.linearity.holdout` can tell.

        Raises
        ------
        ValueError
            If `confidence` is not strictly between 0 and 1.
        SessionError
            If the session is not finished, or its releases tell differences of means only.
        """
        return self._run.interval(_check.proportion(confidence, "confidence"))

    def record(self, rewards: Mapping[Any, ArrayLike], *, batch: Label | None = None) -> None:
        """Take rewards of one or more arms: all of them, or on an error none.

        Parameters
        ----------
        rewards : mapping of label to array_like of shape (n,)
            Rewards in `reward_range` of arms in `requests`, no more than are missing.
        batch : int or str, optional
            A name for these rewards, under which they are taken once: told again, they are refused.
            As long as their phase is under way, `undo` takes them back. Names stay in the file and
            are no secret.

        Raises
        ------
        ValueError, TypeError
            If any of them is refused. No message tells a reward.
        SessionConflictError
            If the file was changed by someone else since it was read here.
        SessionError
            If the session is finished, or the batch was recorded already.
        """
        self._take(rewards, "rewards", array_sum, batch)

    def record_sums(
        self, sums: Mapping[Any, tuple[float | Fraction, int]], *, batch: Label | None = None
    ) -> None:
        """Take rewards that were added up elsewhere: all of them, or on an error none.

        Parameters
        ----------
        sums : mapping of label to (total, count)
            The sum of `count` rewards in `reward_range`, taken as exact, of arms in `requests`.
        batch
            As in `record`.

        Raises
        ------
        ValueError, TypeError, SessionError
            As in `record`. No message tells a sum.
        """
        self._take(sums, "sums", stated_sum, batch)

    def undo(self, batch: Label) -> None:
        """Take a batch back that was recorded by mistake, and free its name.

        Its rewards are not asked for again, so that nothing can be learnt from what is refused. A
        mistake in a phase that has been released stays.

        Raises
        ------
        ValueError, TypeError
            If this is no name.
        SessionError
            If there is no such batch, or its phase has been released. Of the kind
            `SessionConflictError`, if the file was changed by someone else.
        """
        with self._mutex:
            self._keep(self._run.without(batch))

    def end_phase(self) -> None:
        """Release the phase under way with the rewards that came in, when no more will.

        Each arm that the phase pulls needs one reward at least. Its mean is then one of fewer
        rewards, each of which moves the release further: so the noise is made wider, by as much as
        keeps the privacy loss at what was planned (see `shortened`), and estimates stay unbiased.
        How many rewards came in is public. Decide this without a look at the rewards; whether one
        is missing must not depend on what it would have been.

        Raises
        ------
        SessionError
            If the session is finished, or an arm has no reward. Of the kind `SessionConflictError`,
            if the file was changed by someone else.
        """
        with self._mutex:
            self._keep(self._run.ended())

    def withdraw(self, arm: Label) -> None:
        """Ask for no more rewards of an arm, when it cannot be pulled any longer.

        In the phase under way, and in later ones that it is still in, each reward of it that is
        missing counts as the middle of the range, which is a constant: every other reward moves the
        release as far as planned, under the noise that was planned, so the guarantee stays. With no
        reward at all the arm's part of the release is noise alone. Estimates of other arms that use
        it are drawn towards what the middle would mean, as `Session.interval` allows for. At the
        end of the phase it is out, unless fewer others are left than the policy goes on with. That
        and when an arm was withdrawn are public: decide it without a look at the rewards.

        Raises
        ------
        SessionError
            If the session is finished, the arm is neither in play nor pulled, or fewer than two
            arms would stay in play. Of the kind `SessionConflictError`, if the file was changed by
            someone else.
        """
        with self._mutex:
            self._keep(self._run.withdrawing(arm))

    def _take(
        self,
        given: Any,
        name: str,
        summed: Callable[[Any, Range], Sum],
        batch: Label | None,
    ) -> None:
        if not isinstance(given, Mapping):  # what else it is may be rewards, and is not told
            raise TypeError(f"{name} must be a mapping from arms, got {type(given).__name__}")
        parts = [(label, summed(values, self.reward_range)) for label, values in given.items()]
        with self._mutex:
            self._keep(self._run.with_rewards(parts, batch).advanced())

    def _keep(self, run: Run) -> None:
        """Save a run, and only then show it: noise that a crash swallowed was seen by no one."""
        data = None
        if self._store:
            data = self._store.save(run, *self._at)
        elif os.getpid() != self._process:
            raise SessionError("a session in memory goes on in the process that began it")
        # One step. Interrupted before it, the old run goes with the bytes of a file that is gone,
        # which the store refuses to replace.
        self._at = run, data
