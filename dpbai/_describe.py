"""Descriptions of objects: in the types of JSON, to save and compare them, and as text."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import fields
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

import numpy as np

_NOT_FINITE = "not finite"
_ROUNDING = 1e-9
UNSEEN = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Control characters, line ends, direction marks and surrogates, which names must not contain."""


def visible(text: str) -> str:
    """Return text on one line, with invisible characters escaped."""
    return UNSEEN.sub(lambda sign: f"\\x{ord(sign[0]):02x}", " ".join(text.split()))


def class_name(kind: type) -> str:
    """Return the name of a class with its module, which is `dpbai` for classes of this library."""
    ours = kind.__module__.startswith("dpbai.")
    return f"{'dpbai' if ours else kind.__module__}.{kind.__qualname__}"


def plain(value: Any) -> Any:
    """Return `value` in the types of JSON; infinity and NaN become objects that hold their names.

    A dataclass becomes an object of its class and parameters. Other types raise `TypeError`.
    """
    kind: Any = type(value)
    if hasattr(kind, "__dataclass_fields__"):
        names = [field.name for field in fields(kind) if field.init]
        return {"class": class_name(kind), **{name: plain(getattr(value, name)) for name in names}}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {_NOT_FINITE: str(value)}
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"a {kind.__name__} cannot be saved")


def restored(value: Any) -> Any:
    """Invert `plain` for tuples, dicts and numbers."""
    if isinstance(value, list):
        return tuple(map(restored, value))
    if isinstance(value, dict) and value.keys() != {_NOT_FINITE}:
        return {key: restored(entry) for key, entry in value.items()}
    return float(value[_NOT_FINITE]) if isinstance(value, dict) else value


def fingerprint(value: Any) -> str:
    """Return a SHA-256 digest of `plain(value)`."""
    return hashlib.sha256(json.dumps(plain(value)).encode()).hexdigest()


def rounded_up(value: float) -> str:
    """Format a value in six digits, rounded up; add an excess due to rounding errors explicitly."""
    nearest = float(f"{value:.6g}")
    if not value > nearest:
        return f"{nearest:g}"
    if value - nearest < _ROUNDING * nearest:
        return f"{nearest:g} + {_ceiling(value - nearest, 2)} (rounding)"
    return _ceiling(value, 6)


def _ceiling(value: float, digits: int) -> str:
    """Format a value in `digits` digits, rounded up."""
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal(Decimal(value))):.{digits}g}"
