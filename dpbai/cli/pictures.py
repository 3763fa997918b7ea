"""Figures that commands save: checked before anything is computed, the same bytes at each run."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from dpbai import _check

FIGURES = (".png", ".svg")


def check(path: str | None) -> None:
    """Refuse a figure that could not be drawn, before anything is computed."""
    if path is None:
        return
    if Path(path).suffix not in FIGURES:
        raise ValueError(f"--figure must end in {' or '.join(FIGURES)}, got {path!r}")
    _check.path(path, "--figure")
    import_module("dpbai.figures")
    pyplot()


def pyplot() -> Any:
    """Return pyplot, for files only."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save(figure: Any, path: str) -> None:
    """Save a figure; an SVG has no date in it, and no random names."""
    dated = {"Date": None} if Path(path).suffix == ".svg" else {}
    with pyplot().rc_context({"svg.hashsalt": "dpbai"}):
        figure.savefig(path, bbox_inches="tight", metadata=dated)
