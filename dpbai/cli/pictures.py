"""Figures that commands save: the same bytes at each run."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any


def prepare() -> None:
    """Tell at once if Matplotlib is not there; open no windows."""
    import_module("dpbai.figures")
    import_module("matplotlib").use("Agg")


def save(figure: Any, path: str) -> None:
    """Save a figure; an SVG has no date in it, and no random names."""
    dated = {"Date": None} if Path(path).suffix == ".svg" else {}
    with import_module("matplotlib").rc_context({"svg.hashsalt": "dpbai"}):
        figure.savefig(path, bbox_inches="tight", metadata=dated)
