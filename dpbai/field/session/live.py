"""A policy on real rewards: which arms to pull, what came of them, and what it cost in privacy.

A `Session` follows the plan of its policy phase by phase. It keeps the sum and the number of the
rewards of each arm, exactly, and nothing else of them. When a phase is complete it draws the noise,
saves the released statistic, and only then shows it; the sums are gone from the session and from
its file by then. So a phase that has begun is in the file as sums and counts (and the sum of a
single reward is that reward): keep the file as safe as the rewards until the phase is complete.
After that it holds what was released, and nothing that the guarantee does not cover.

The guarantee is for one reward: whoever sees all that a session releases learns no more about any
one reward than epsilon and delta allow. Phases use different rewards, so the guarantee of the whole
is that of the dearest phase. It holds for a file that moves forward only. An older copy may be read
and compared, and take the file's place as long as its phase has not been released; gone on with
after that, it would release the same rewards again under new noise, and the two releases together
cost the sum of their losses. No session can be copied, and none goes on in two processes.
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
from dpbai.field.session.noise import ReleaseNoise, chosen
from dpbai.field.session.phase import noise_deviations
from dpbai.field.session.records import Label, Released, SessionError
from dpbai.field.session.rewards import UNIT, Range, Sum, array_sum, stated_sum
from dpbai.field.session.run import Run
from dpbai.field.session.store import Store
from dpbai.phase import Phase, Policy


class Session:
    """A live run of a policy.

    Parameters
    ----------
    policy : Policy
        What to run. To be saved it must be a dataclass, as the policies of this library are.
    noise : ReleaseNoise, optional
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

    Raises
    ------
    ValueError, TypeError
        If labels are not K names that differ as text, the range is none, the policy cannot be
        saved, or `noise` cannot draw what the policy plans.
    FileExistsError
        If there is a file at `path`; `Session.resume` goes on with it.

    Examples
    --------
    >>> session = Session(policy)  # doctest: +SKIP
    >>> while session.requests:  # doctest: +SKIP
    ...     session.record({arm: ask(arm, pulls) for arm, pulls in session.requests.items()})
    >>> session.recommendation, session.certificate.epsilon  # doctest: +SKIP

    A web service takes rewards one by one, each saved before the next:

    >>> session = Session.resume("run.json")  # doctest: +SKIP
    >>> session.record({"blue": [1]}, batch="visit 4711")  # doctest: +SKIP
    """

    def __init__(
        self,
        policy: Policy,
        *,
        noise: ReleaseNoise | None = None,
        path: str | os.PathLike[str] | None = None,
        labels: Sequence[Label] | None = None,
        reward_range: tuple[float, float] = (0, 1),
    ) -> None:
        run = Run.begun(policy, chosen(noise), labels, reward_range)
        run.promised()  # noise that the source lacks fails here
        self._hold(run, None if path is None else Store(path), None)
        self._keep(run.advanced())

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        policy: Policy | None = None,
        *,
        noise: ReleaseNoise | None = None,
    ) -> Self:
        """Go on with the session in the file at `path`.

        Parameters
        ----------
        path : path-like
            The file.
        policy : Policy, optional
            Must be the one that the file was made for. Left out, it is built from the file, if its
            class is one of this library.
        noise : ReleaseNoise, optional
            Of the same kind as before; left out, that is `OpenDPNoise` or unseeded `NumpyNoise`.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        SessionError
            If the file was cut short, edited, or made for another plan.
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
        self._at, self._store = (run, data), store
        self._mutex, self._process = threading.Lock(), os.getpid()

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError(
            "a session is not copied or pickled, as two of one would release the same rewards "
            "twice; Session.resume opens its file in another process"
        )

    def __repr__(self) -> str:
        name, arms = type(self.policy).__name__, len(self.labels)
        if self.phase is None:
            return f"<Session: {name}, {arms} arms, finished, {self.recommendation!r} recommended>"
        return (
            f"<Session: {name}, {arms} arms, {len(self.phase.active)} in play, phase "
            f"{self.phase.index} has {sum(self._run.counts)} of {self.phase.cost} rewards>"
        )

    @property
    def _run(self) -> Run:
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
        if self.phase is None:
            return {}
        rows = zip(self.phase.pulled, self.phase.pulls, self._run.counts, strict=True)
        return {self.labels[arm]: pulls - count for arm, pulls, count in rows if pulls > count}

    @property
    def finished(self) -> bool:
        """Whether one arm is left."""
        return self.phase is None

    @property
    def recommendation(self) -> Label | None:
        """The arm that is left, or None as long as there are more."""
        return self._run.finished[-1].survivors[0] if self.finished else None

    @property
    def released(self) -> tuple[Released, ...]:
        """What each finished phase released."""
        return self._run.finished

    @property
    def batches(self) -> dict[str, int]:
        """The names of the batches that were recorded, each with its phase."""
        return dict(self._run.batches)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The plans of the finished phases, as they were executed."""
        return self._run.past

    @property
    def estimates(self) -> dict[Label, float]:
        """The private estimates of the means, each from the last finished phase that has one."""
        return {
            label: estimate
            for released in self.released
            for label, estimate in zip(released.active, released.estimates, strict=True)
        }

    @property
    def certificate(self) -> Certificate:
        """The guarantee of the session, with what has to be said of its noise.

        Policies other than DP-BAI, its relatives and DPDesign plan many active sets for this.
        """
        notes = [remark for phase in self.released for remark in phase.remarks]
        if self.reward_range != UNIT:
            notes.append(f"rewards lie in {self.reward_range}, and are mapped to {UNIT}")
        promised, phases = self._run.promised(), self.phases
        visited = certify(phases, mechanism=self.noise) if phases else promised
        return promised.after(visited, [phase.epsilon for phase in self.released], notes)

    @property
    def deviations(self) -> dict[Label, float]:
        """The standard deviations of the noise in `estimates`, by the plans alone."""
        return {
            self.labels[arm]: float(deviation) * self.reward_range.width
            for number, phase in enumerate(self.phases, start=1)
            for arm, deviation in zip(
                phase.active, noise_deviations(self.phases[:number]), strict=True
            )
        }

    def record(
        self,
        rewards: Mapping[Any, ArrayLike],
        *,
        batch: Label | None = None,
        undo: bool = False,
    ) -> None:
        """Take rewards of one or more arms: all of them, or on an error none.

        Parameters
        ----------
        rewards : mapping of label to array_like of shape (n,)
            Rewards in `reward_range` of arms in `requests`, no more than are missing.
        batch : int or str, optional
            A name for these rewards, under which they are taken once: told again, they are refused.
            Names stay in the file and are no secret.
        undo : bool, default False
            Take the rewards back that were recorded by mistake, and free the name of their batch. A
            mistake in a phase that has been released stays.

        Raises
        ------
        ValueError, TypeError
            If any of them is refused. No message tells a reward.
        SessionError
            If the session is finished, the batch was recorded already or (to undo it) not in the
            phase under way, or the file was changed by someone else.
        """
        self._take(rewards, "rewards", array_sum, batch, undo)

    def record_sums(
        self,
        sums: Mapping[Any, tuple[float | Fraction, int]],
        *,
        batch: Label | None = None,
        undo: bool = False,
    ) -> None:
        """Take rewards that were added up elsewhere: all of them, or on an error none.

        Parameters
        ----------
        sums : mapping of label to (total, count)
            The sum of `count` rewards in `reward_range`, taken as exact, of arms in `requests`.
        batch, undo
            As in `record`.

        Raises
        ------
        ValueError, TypeError, SessionError
            As in `record`. No message tells a sum.
        """
        self._take(sums, "sums", stated_sum, batch, undo)

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
            If the session is finished, an arm has no reward, or the file was changed by someone
            else.
        """
        with self._mutex:
            self._keep(self._run.ended())

    def _take(
        self,
        given: Any,
        name: str,
        summed: Callable[[Any, Range], Sum],
        batch: Label | None,
        undo: bool,
    ) -> None:
        if not isinstance(given, Mapping):  # what else it is may be rewards, and is not told
            raise TypeError(f"{name} must be a mapping from arms, got {type(given).__name__}")
        parts = [(label, summed(values, self.reward_range)) for label, values in given.items()]
        undo = _check.flag(undo, "undo")
        with self._mutex:
            run = self._run if batch is None else self._run.with_batch(batch, undo)
            self._keep(run.with_rewards(parts, undo).advanced())

    def _keep(self, run: Run) -> None:
        """Save a run, and only then show it: noise that a crash swallowed was seen by no one."""
        data = None
        if self._store:
            data = self._store.save(run, self._at[1])
        elif os.getpid() != self._process:
            raise SessionError("a session in memory goes on in the process that began it")
        # One step. Interrupted before it, the old run goes with the bytes of a file that is gone,
        # which the store refuses to replace.
        self._at = run, data
