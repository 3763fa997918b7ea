"""Independent calls in a `concurrent.futures.Executor`, whose workers may die."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from typing import TypeVar

Result = TypeVar("Result")


def in_any_order(
    calls: Sequence[Callable[[], Result]], executor: Executor | None
) -> Iterator[tuple[int, Result]]:
    """Yield the position and the result of each call as it completes.

    A call that fails, or whose worker dies, is run again in this process after all others, with a
    `RuntimeWarning`; an exception in this second run is raised. Without an executor, the calls are
    run in this process, in order. An executor that starts processes needs calls that can be
    pickled.
    """
    failed: dict[int, BaseException] = {}
    futures: dict[Future[Result], int] = {}
    for number, call in enumerate(calls):
        if executor is None:
            yield number, call()
            continue
        try:
            futures[executor.submit(call)] = number
        except Exception as reason:  # a broken pool
            failed[number] = reason
    for future in as_completed(futures):
        try:
            result = future.result()
        except Exception as reason:
            failed[futures[future]] = reason
        else:
            yield futures[future], result
    if failed:
        first = next(iter(failed.values()))
        warnings.warn(
            f"{len(failed)} of {len(calls)} calls failed in the executor and are run again in this "
            f"process; the first failed with {type(first).__name__}: {first}",
            RuntimeWarning,
            stacklevel=3,
        )
    for number in sorted(failed):
        yield number, calls[number]()
