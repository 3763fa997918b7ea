"""A policy on real rewards: which arms to pull, what came of them, and what it cost in privacy.

A `Session` follows the plan of its policy phase by phase. It keeps the sum and the number of the
rewards of each arm, exactly, and nothing else of them. When a phase is complete it draws the noise,
saves the released statistic, and only then shows it; the sums are gone from the session and from
its file by then. So a phase that has begun is in the file as sums and counts (and the sum of a
single reward is that reward): keep the file as safe as the rewards until the phase is complete.
After that it holds what was released, and nothing that the guarantee does not cover.

The guarantee is for one reward: whoever sees all that a session releases learns no more about any
one reward than epsilon and delta allow. Phases use different rewards, so the guarantee of the whole
is that of the dearest phase. It holds for a file that moves forward only: an older copy, put back
after its phase was released, would release the same rewards again under new noise.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbai import _check
from dpbai.policies import Phase, Policy
from dpbai.policies.phase import arms_of, planned
from dpbai.privacy.certificate import Certificate, certificate, certify
from dpbai.session import file
from dpbai.session.noise import (
    NumpyNoise,
    OpenDPNoise,
    ReleaseNoise,
    ReleaseWarning,
)
from dpbai.session.records import Label, Released, State
from dpbai.session.rewards import Sum, array_sum, stated_sum
from dpbai.session.single import Release
from dpbai.session.store import Store, StoreError

SOURCES: dict[str, Callable[[], ReleaseNoise]] = {
    OpenDPNoise.name: OpenDPNoise,
    NumpyNoise.name: NumpyNoise,
}


class SessionError(RuntimeError):
    """A session that cannot take a step, or a file that is refused; nothing has changed."""


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
        What to call the arms, in the order of the features; 0, ..., K-1 by default.

    Raises
    ------
    ValueError, TypeError
        If labels are not K distinct integers and strings, or the policy cannot be saved.
    FileExistsError
        If there is a file at `path`; `Session.resume` goes on with it.

    Examples
    --------
    >>> session = Session(policy)  # doctest: +SKIP
    >>> while session.requests:  # doctest: +SKIP
    ...     session.record({arm: ask(arm, pulls) for arm, pulls in session.requests.items()})
    >>> session.recommendation, session.certificate.epsilon  # doctest: +SKIP
    """

    def __init__(
        self,
        policy: Policy,
        *,
        noise: ReleaseNoise | None = None,
        path: str | os.PathLike[str] | None = None,
        labels: Sequence[Label] | None = None,
    ) -> None:
        arms = range(arms_of(policy))
        self._begin(policy, noise, arms if labels is None else labels)
        self._promised  # noqa: B018  (noise that the source lacks fails here)
        self._state = self._advanced(self._started(()))
        self._store = None if path is None else _store(path)
        if self._store:
            self._store.create(self._content(self._state))

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
        store = _store(path)
        try:
            content = store.load()
            policy = file.rebuilt(content["policy"]) if policy is None else policy
            file.check_same(content["policy"], file.described(policy))
            noise = _source(content["noise"]) if noise is None else noise
            if noise.name != content["noise"]:
                raise ValueError(f"it was begun with noise from {content['noise']}")
            session = cls.__new__(cls)
            session._begin(policy, noise, file.labels_of(content))
            begun = session._started(file.finished_in(content))
            received = file.received_in(content, begun.phase)
            session._state = State(begun.finished, begun.phase, *received)
            session._store = store
        except StoreError as error:
            raise SessionError(str(error)) from None
        except (
            KeyError,
            IndexError,
            AttributeError,
            TypeError,
            ValueError,
            ArithmeticError,
        ) as error:
            raise SessionError(f"{store.path} is refused: {error}") from error
        return session

    def _begin(self, policy: Policy, noise: ReleaseNoise | None, labels: Sequence[Label]) -> None:
        self.policy = policy
        self.labels = _checked_labels(labels, arms_of(policy))
        self._arm_of = {label: arm for arm, label in enumerate(self.labels)}
        self.noise = OpenDPNoise() if noise is None else _check.kind(noise, "noise", ReleaseNoise)
        self._mutex = threading.Lock()
        for remark in self.noise.remarks:
            warnings.warn(remark, ReleaseWarning, stacklevel=3)

    @property
    def phase(self) -> Phase | None:
        """The plan of the phase under way, or None when the session is finished."""
        return self._state.phase

    @property
    def requests(self) -> dict[Label, int]:
        """How many rewards of which arms are missing in the phase under way; empty at the end."""
        if self.phase is None:
            return {}
        rows = zip(self.phase.pulled, self.phase.pulls, self._state.counts, strict=True)
        return {self.labels[arm]: pulls - count for arm, pulls, count in rows if pulls > count}

    @property
    def finished(self) -> bool:
        """Whether one arm is left."""
        return self.phase is None

    @property
    def recommendation(self) -> Label | None:
        """The arm that is left, or None as long as there are more."""
        return self._state.finished[-1].survivors[0] if self.finished else None

    @property
    def released(self) -> tuple[Released, ...]:
        """What each finished phase released."""
        return self._state.finished

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

        For a policy other than DP-BAI and its relatives, many active sets are planned for this.
        """
        notes = (remark for phase in self.released for remark in phase.remarks)
        return self._promised.after([phase.epsilon for phase in self.released], notes)

    @cached_property
    def _promised(self) -> Certificate:
        return certificate(self.policy, mechanism=self.noise)

    def record(self, rewards: Mapping[Any, ArrayLike]) -> None:
        """Take rewards of one or more arms: all of them, or on an error none.

        Parameters
        ----------
        rewards : mapping of label to array_like of shape (n,)
            Rewards in [0, 1] of arms in `requests`, no more than are missing.

        Raises
        ------
        ValueError, TypeError
            If any of them is refused. No message tells a reward.
        SessionError
            If the session is finished, or its file was changed by someone else.
        """
        given = _mapping(rewards, "rewards")
        self._take({label: array_sum(values) for label, values in given.items()})

    def record_sums(self, sums: Mapping[Any, tuple[float | Fraction, int]]) -> None:
        """Take rewards that were added up elsewhere: all of them, or on an error none.

        Parameters
        ----------
        sums : mapping of label to (total, count)
            The sum of `count` rewards in [0, 1], taken as exact, of arms in `requests`.

        Raises
        ------
        ValueError, TypeError
            If any of them is refused. No message tells a sum.
        SessionError
            If the session is finished, or its file was changed by someone else.
        """
        given = _mapping(sums, "sums")
        for pair in given.values():
            if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
                raise TypeError("sums must be pairs of a total and a count")
        self._take({label: stated_sum(*pair) for label, pair in given.items()})

    def _take(self, parts: Mapping[Label, Sum]) -> None:
        with self._mutex:
            state = self._advanced(self._with(parts))
            if self._store:
                try:
                    self._store.replace(self._content(state))
                except StoreError as error:
                    raise SessionError(str(error)) from None
            # Only what has been saved is shown: noise that a crash swallowed was seen by no one.
            self._state = state

    def _with(self, parts: Mapping[Label, Sum]) -> State:
        """Return the state with more rewards."""
        phase = self.phase
        if phase is None:
            raise SessionError("the session is finished and takes no more rewards")
        missing = self.requests
        sums, counts = list(self._state.sums), list(self._state.counts)
        for label, (total, count) in parts.items():
            # A label that is unknown is not repeated: it may be a reward in the wrong place.
            if not _is_label(label) or label not in missing:
                raise ValueError("rewards must be of arms that are asked for, see requests")
            if count > missing[label]:
                raise ValueError(f"arm {label!r} needs {missing[label]} more rewards, got {count}")
            position = phase.pulled.index(self._arm_of[label])
            sums[position] += total
            counts[position] += count
        return State(self._state.finished, phase, tuple(sums), tuple(counts))

    def _started(self, finished: tuple[Released, ...]) -> State:
        """Return the state in which the phase after the `finished` ones begins."""
        active = finished[-1].survivors if finished else self.labels
        if len(active) == 1:
            return State(finished, None, (), ())
        arms = [self._arm_of[label] for label in active]
        spent = sum(sum(released.pulls) for released in finished)
        phase = planned(self.policy, len(finished) + 1, arms, spent=spent)
        zeros = (0,) * len(phase.pulled)
        return State(finished, phase, tuple(map(Fraction, zeros)), zeros)

    def _advanced(self, state: State) -> State:
        """Release the phase under way if it is complete, and so on."""
        while state.phase is not None and state.counts == state.phase.pulls:
            state = self._started((*state.finished, self._release(state.phase, state.sums)))
        return state

    def _release(self, phase: Phase, sums: Sequence[Fraction]) -> Released:
        if not self._promised.covers(certify([phase], mechanism=self.noise)):
            raise SessionError(
                f"the plan of phase {phase.index} loses more than all plans that the guarantee was "
                "computed from; a policy must plan the same phase for the same active set each time"
            )
        release = Release.of(phase, sums, self.noise, phase.index)
        released = np.array(release.statistic)[None]
        survivors = phase.survivors(released, _tie_breaker(self.noise, phase.index))
        names = self.labels
        return Released(
            phase=phase.index,
            active=tuple(names[arm] for arm in phase.active),
            pulled=tuple(names[arm] for arm in phase.pulled),
            pulls=phase.pulls,
            statistic=release.statistic,
            estimates=tuple(phase.estimates(released)[0].tolist()),
            survivors=tuple(names[arm] for arm in survivors[0].tolist()),
            epsilon=release.epsilon,
            delta=release.delta,
            remarks=release.remarks,
        )

    def _content(self, state: State) -> Mapping[str, Any]:
        return file.content(self.policy, self.noise.name, self.labels, state)


def _store(path: str | os.PathLike[str]) -> Store:
    return Store(_check.path(path, "path"), kind=file.KIND, version=file.VERSION)


def _source(name: str) -> ReleaseNoise:
    if name not in SOURCES:
        raise ValueError(f"it was begun with noise from {name}: pass that noise")
    return SOURCES[name]()


def _tie_breaker(source: ReleaseNoise, phase: int) -> np.random.Generator:
    """Return what breaks ties in a phase: chance that nobody knows, unless the source is seeded."""
    if isinstance(source, NumpyNoise):
        return source.generator(phase, 1)
    return np.random.default_rng()


def _mapping(value: Any, name: str) -> Mapping[Any, Any]:
    """Return a mapping; what else it is may be rewards, and is not told."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping from arms, got {type(value).__name__}")
    return value


def _is_label(value: Any) -> bool:
    return isinstance(value, Integral | str) and not isinstance(value, bool)


def _checked_labels(labels: Sequence[Label], arms: int) -> tuple[Label, ...]:
    checked = []
    for label in _check.sequence(labels, "labels"):
        if not _is_label(label):
            raise TypeError(f"labels must be integers or strings, got {_check.told(label)}")
        checked.append(str(label) if isinstance(label, str) else int(label))
    if len(checked) != arms or len(set(checked)) != arms:
        raise ValueError(f"labels must be {arms} distinct names, one for each arm")
    return tuple(checked)
