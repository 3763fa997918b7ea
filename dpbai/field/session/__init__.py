"""A policy on real rewards, with noise that is fit for a release.

Here are the live run, the file that it can be resumed from, and the sources of noise. Nothing here
computes a guarantee of its own, which is `dpbai.certificate`'s, or knows of an instance: what the
true means are is what a run is there to find out.
"""

from dpbai.field.session.interval import Interval
from dpbai.field.session.ledger import Ledger, ledger
from dpbai.field.session.live import Session
from dpbai.field.session.noise import NumpyNoise, OpenDPNoise, ReleaseWarning
from dpbai.field.session.phase import release
from dpbai.field.session.records import Batch, Release, Released, SessionConflictError, SessionError

__all__ = [
    "Batch",
    "Interval",
    "Ledger",
    "NumpyNoise",
    "OpenDPNoise",
    "Release",
    "ReleaseWarning",
    "Released",
    "Session",
    "SessionConflictError",
    "SessionError",
    "ledger",
    "release",
]
