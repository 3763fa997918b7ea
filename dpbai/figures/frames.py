"""Explorers: figures that a reader steps through, with or without a kernel.

An explorer is a slider or a dropdown tied by `jslink` to a stack of frames that were drawn when the
notebook ran. The link lives in the browser, so it works in the built page, from the file system and
with no network, as it does in a live notebook; so do the arrow keys.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Mapping
from typing import Literal

import ipywidgets as widgets

from dpbai import _check
from dpbai.figures.canvas import Picture

CONTROLS = ("slider", "dropdown")


class Frame(widgets.HTML):  # type: ignore[misc]
    """A picture with alternative text, one of the frames of an explorer."""

    def __init__(self, picture: Picture, alt: str) -> None:
        data = base64.b64encode(picture.png()).decode()
        super().__init__(f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{data}">')
        self.alt = alt

    def __repr__(self) -> str:
        """Return the alternative text: a notebook stores this too, and not the picture again."""
        return f"Frame({self.alt!r})"


class Explorer(widgets.VBox):  # type: ignore[misc]
    """A control above the frame that it selects."""

    def __repr__(self) -> str:
        """Return what there is to explore."""
        control, stack = self.children
        return f"Explorer({control.description!r}, {len(stack.children)} frames)"


def explorer(
    label: str,
    options: Mapping[str, object],
    draw: Callable[..., tuple[Picture, str]],
    *,
    control: Literal["slider", "dropdown"] = "slider",
    start: int = 0,
) -> Explorer:
    """Draw a frame for each option, and tie them to a control.

    Parameters
    ----------
    label : str
        What the control is called; formulas as in LaTeX, between backslash-parentheses.
    options : mapping of str to object
        What the control shows for each option, and the option itself.
    draw : callable
        `draw(option)` returns a picture and its alternative text.
    control : {"slider", "dropdown"}
        A slider suits ordered options.
    start : int, default 0
        Position of the option that is shown first.

    Returns
    -------
    Explorer
        To be displayed as the last expression of a cell.

    Raises
    ------
    ValueError
        If there are fewer than two options, `control` is neither, or `start` is no position.
    """
    _check.choice(control, "control", CONTROLS)
    if len(options) < 2:
        raise ValueError(f"options must be at least two, got {len(options)}")
    if not 0 <= _check.whole(start, "start", least=0) < len(options):
        raise ValueError(f"start must be a position of 0..{len(options) - 1}, got {start}")
    kind = widgets.SelectionSlider if control == "slider" else widgets.Dropdown
    chooser = kind(
        options=list(options),
        index=start,
        description=label,
        style={"description_width": "initial"},
    )
    frames = [Frame(*draw(option)) for option in options.values()]
    stack = widgets.Stack(frames, selected_index=start)
    widgets.jslink((chooser, "index"), (stack, "selected_index"))
    return Explorer([chooser, stack])
