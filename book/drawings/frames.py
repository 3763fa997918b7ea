"""Figures that a reader steps through: with explorers in any browser, live in a running notebook.

An explorer is a slider or a dropdown tied by `jslink` to a stack of frames that were drawn when the
notebook ran. The link lives in the browser, so it works in the built page, from the file system and
with no network, as it does in a live notebook; so do the arrow keys. Live controls draw anew for
each of their values, for which there must be a kernel: cells that show them are tagged
`remove-output`, so that no page has a slider that does nothing.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, Literal

import ipywidgets as widgets
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike, NDArray

from dpbai.field.figures.canvas import Picture

Drawn = tuple[Picture, str, str]
"""A picture, its alternative text, and the number in it that matters, told in a few words."""

CONTROLS = ("slider", "dropdown")
GHOST = "#b8b8b8"


def _image(picture: Picture, alt: str) -> str:
    """Return a picture with its alternative text as HTML."""
    data = base64.b64encode(picture.svg().encode()).decode()
    return f'<img alt="{html.escape(alt)}" src="data:image/svg+xml;base64,{data}">'


class Frame(widgets.HTML):  # type: ignore[misc]
    """A picture with alternative text, one of the frames of an explorer."""

    def __init__(self, picture: Picture, alt: str) -> None:
        super().__init__(_image(picture, alt))
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
    draw: Callable[..., Drawn],
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
        What the control calls each option, and the option itself.
    draw : callable
        `draw(option)` returns a picture, its alternative text, and the number that matters, which
        the control shows beside the option.
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
    if control not in CONTROLS:
        raise ValueError(f"control must be one of {', '.join(CONTROLS)}, got {control!r}")
    if len(options) < 2:
        raise ValueError(f"options must be at least two, got {len(options)}")
    if not 0 <= start < len(options):
        raise ValueError(f"start must be a position of 0..{len(options) - 1}, got {start}")
    drawn = [draw(option) for option in options.values()]
    kind = widgets.SelectionSlider if control == "slider" else widgets.Dropdown
    chooser = kind(
        options=[f"{name}: {told}" for name, (*_, told) in zip(options, drawn, strict=True)],
        index=start,
        description=label,
        style={"description_width": "initial"},
        layout={"width": "100%" if control == "slider" else "auto"},
    )
    _steady([picture for picture, *_ in drawn])
    frames = [Frame(picture, alt) for picture, alt, _ in drawn]
    stack = widgets.Stack(frames, selected_index=start)
    widgets.jslink((chooser, "index"), (stack, "selected_index"))
    return Explorer([chooser, stack])


def _steady(pictures: Sequence[Picture]) -> None:
    """Give pictures of the same axes the same limits and places, so that only what changes moves.

    Behind its own lines and points, each shows those of the picture before, pale. Pictures whose
    axes differ in number or scale are left alone.
    """
    kinds = {tuple((ax.get_xscale(), ax.get_yscale()) for ax in each.axes) for each in pictures}
    if len(kinds) > 1:
        return
    for same in zip(*(picture.axes for picture in pictures), strict=True):
        limits = np.array([[*axes.get_xlim(), *axes.get_ylim()] for axes in same])
        places = np.array([axes.get_position(original=True).extents for axes in same])
        lines = [_outline(axes) for axes in same]
        inside = [*places[:, :2].max(axis=0), *places[:, 2:].min(axis=0)]
        for number, axes in enumerate(same):
            axes.set_xlim(_widest(limits[:, :2]))
            axes.set_ylim(_widest(limits[:, 2:]))
            axes.set_position(Bbox.from_extents(*inside))
            for x, y, look in lines[number - 1] if number else ():
                axes.plot(x, y, color=GHOST, alpha=0.7, zorder=0.6, label="_ghost", **look)


def _widest(limits: NDArray[np.float64]) -> tuple[float, float]:
    """Return the limits that hold all of some pairs, in the direction that these run."""
    low, high = limits.min(), limits.max()
    return (low, high) if limits[0, 0] <= limits[0, 1] else (high, low)


def _outline(axes: Axes) -> list[tuple[ArrayLike, ArrayLike, dict[str, Any]]]:
    """Return the data of lines and points, each with the look of a ghost of it."""
    found: list[tuple[ArrayLike, ArrayLike, dict[str, Any]]] = [
        (
            line.get_xdata(),
            line.get_ydata(),
            {
                "linewidth": 1.2,
                "marker": line.get_marker(),
                "markersize": line.get_markersize(),
                "linestyle": line.get_linestyle(),
            },
        )
        for line in axes.get_lines()
        if line.get_transform() == axes.transData
    ]
    for points in axes.collections:
        offsets = np.asarray(points.get_offsets())
        if isinstance(points, PathCollection) and offsets.size:
            x, y = offsets.T
            found.append((x, y, {"linestyle": "none", "marker": "o", "markersize": 4}))
    return found


class Live(widgets.VBox):  # type: ignore[misc]
    """Controls above a picture that is drawn anew, by the kernel, when one of them is moved.

    There is no picture before that: a stored notebook would carry it beside that of the explorer.
    """

    def __init__(
        self,
        draw: Callable[..., Drawn],
        controls: Mapping[str, widgets.ValueWidget],
    ) -> None:
        self.controls, self._draw = dict(controls), draw
        self.shown = widgets.HTML("Move a control to draw.")
        super().__init__([*controls.values(), self.shown])
        for control in controls.values():
            control.observe(self._redraw, "value")

    def _redraw(self, change: object) -> None:  # noqa: ARG002  (all values count, not the changed)
        values = {name: control.value for name, control in self.controls.items()}
        try:
            picture, alt, told = self._draw(**values)
            self.shown.value = f"{html.escape(told)}<br>{_image(picture, alt)}"
        except ValueError as error:  # what cannot be drawn says why
            self.shown.value = html.escape(str(error))

    def __repr__(self) -> str:
        """Return what there is to move."""
        return f"Live({', '.join(self.controls)})"


def live(draw: Callable[..., Drawn], **controls: object) -> Live:
    """Draw for any values of some parameters, in a running notebook.

    Parameters
    ----------
    draw : callable
        `draw(**values)` returns what it does for an `explorer`. A `ValueError` is shown in the
        place of the picture.
    **controls
        A control for each parameter: a widget, or whatever `ipywidgets.interact` makes one of,
        such as `(low, high)` or `(low, high, step)` for a slider. It starts at the parameter's
        default, if it has one.

    Returns
    -------
    Live
        To be displayed as the last expression of a cell that is tagged `remove-output`.

    Raises
    ------
    ValueError
        If there is no control, none can be made, or `draw` has no such parameter.
    """
    if not controls:
        raise ValueError("controls must be at least one, got none")
    parameters = signature(draw).parameters
    made = {}
    for name, control in controls.items():
        if name not in parameters:
            raise ValueError(f"draw has no parameter {name!r}")
        widget = widgets.interactive.widget_from_abbrev(control, parameters[name].default)
        if not isinstance(widget, widgets.ValueWidget):
            raise ValueError(f"{name} must be what interact makes a control of, got {control!r}")
        widget.description = widget.description or name
        if widget.has_trait("continuous_update"):
            widget.continuous_update = False
        made[name] = widget
    return Live(draw, made)
