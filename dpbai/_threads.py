"""One thread for the linear algebra of plans and simulations.

A plan takes thousands of products of small matrices. BLAS distributes even products of a hundred
rows over all processors, and then waits for its threads far longer than it computes: planning for
133 one-hot arms took 15 times as long with two threads as with one.
"""

from __future__ import annotations

import os
from contextlib import ContextDecorator
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController


class _OneThread(ContextDecorator):
    """A context manager and decorator in which BLAS uses one thread.

    The number of BLAS threads is a setting of the process. The first thread to enter sets it, and
    the last to leave restores it; in between, it also applies to all other threads.
    """

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        if hasattr(os, "register_at_fork"):  # else a child could inherit a lock that stays locked
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._lock.release,
            )

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit = _libraries().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


@cache
def _libraries() -> ThreadpoolController:
    """Find the BLAS libraries, once NumPy and SciPy have loaded them."""
    return ThreadpoolController()


one_thread = _OneThread()
