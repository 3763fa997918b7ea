"""Figures that a reader steps through: with explorers in any browser, live in a running notebook.

An explorer is a slider or a dropdown above frames that were drawn when the notebook ran. It is HTML
that needs no script but its own line, so it works in the built page, from the file system and with
no network, as it does in a live notebook; so do the arrow keys. Live controls draw anew for each of
their values, for which there must be a kernel: cells that show them are tagged `remove-output`, so
that no page has a slider that does nothing.
"""

from __future__ import annotations

import base64
import html
import re
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
"""A picture, its alternative text, and its main number with a few words."""

GHOST = "#b8b8b8"
_GHOSTS = "Faint grey: the picture of the position before, for comparison."

# Shows the chosen frame and its number. A slider also gives the number to screen readers, by an
# attribute that a dropdown may not have.
_ON_INPUT = (
    "const box=this.closest('.explorer'),{runs,run}=box.dataset;"
    "const shown=this.value*runs+ +run;"
    "box.querySelectorAll('img').forEach((frame,number)=>frame.hidden=number!=shown);"
    "const told=box.querySelector('img:not([hidden])').dataset.told;"
    "box.querySelector('output').value=told;"
    "if(this.type=='range')this.setAttribute('aria-valuetext',told)"
)

_ON_SECOND = (
    "const box=this.closest('.explorer');box.dataset.run=this.value;"
    "box.querySelector('label>:is(input,select)').dispatchEvent(new Event('input'))"
)

_ON_CLICK = (
    "const box=this.closest('.explorer');"
    "box.dataset.run=(+box.dataset.run+1)%box.dataset.runs;"
    "box.querySelector('label>:is(input,select)').dispatchEvent(new Event('input'))"
)


def _image(picture: Picture, alt: str, more: str = "") -> str:
    """Return a picture with its alternative text as HTML."""
    svg = picture.svg()
    sizes = re.findall(r'(?:width|height)="\d+"', svg[: svg.index(">")])
    data = base64.b64encode(svg.encode()).decode()
    source = f'src="data:image/svg+xml;base64,{data}"'
    return f'<img alt="{html.escape(alt)}" {" ".join(sizes)}{more} {source}>'


class Explorer:
    """A control and the frames that it selects from, as HTML."""

    def __init__(self, label: str, frames: int, markup: str) -> None:
        self.label, self.frames, self._markup = label, frames, markup

    def _repr_html_(self) -> str:
        return self._markup

    def __repr__(self) -> str:
        """Return the label and the number of frames."""
        return f"Explorer({self.label!r}, {self.frames} frames)"


def explorer(
    label: str,
    options: Mapping[str, object],
    draw: Callable[..., Drawn],
    *,
    control: Literal["slider", "dropdown"] = "slider",
    start: int = 0,
    runs: int = 1,
    second: tuple[str, Mapping[str, object]] | None = None,
) -> Explorer:
    """Draw a frame for each option, and show them with a control that selects one.

    Parameters
    ----------
    label : str
        What the control is called; formulas as in LaTeX, between backslash-parentheses.
    options : mapping of str to object
        What the control calls each option, and the option itself.
    draw : callable
        `draw(option)` returns a picture, its alternative text, and the number that matters, which
        the control shows beside the option. With several runs, `draw(option, run)` does.
    control : {"slider", "dropdown"}
        A slider suits ordered options.
    start : int, default 0
        Position of the option that is shown first.
    runs : int, default 1
        How many frames each option has, numbered from 0, which a button shows in turn.
    second : (str, mapping of str to object), optional
        Label and options of a dropdown beside the control, in place of the runs: there is a frame
        for each pair of options, `draw(option, other)`.

    Returns
    -------
    Explorer
        To be displayed as the last expression of a cell.

    Raises
    ------
    ValueError
        If there are fewer than two options, `control` is neither, `start` is no position, or there
        is no run.
    """
    if control not in _CONTROLS:
        raise ValueError(f"control must be one of {', '.join(_CONTROLS)}, got {control!r}")
    if len(options) < 2:
        raise ValueError(f"options must be at least two, got {len(options)}")
    if not 0 <= start < len(options):
        raise ValueError(f"start must be a position of 0..{len(options) - 1}, got {start}")
    if runs < 1:
        raise ValueError(f"runs must be at least 1, got {runs}")
    numbers: list[tuple[object, ...]] = [(run,) if runs > 1 else () for run in range(runs)]
    if second:
        numbers = [(option,) for option in second[1].values()]
    drawn = [draw(option, *number) for option in options.values() for number in numbers]
    note = ""
    # What chance draws differs in all, and has the axes that it needs.
    if runs == 1 and _steady([picture for picture, *_ in drawn], back=len(numbers)):
        note = f'<p class="ghosts">{_GHOSTS}</p>\n'
    runs = len(numbers)
    names = [name for name in options for _ in numbers]
    told = [html.escape(f"{name}: {each[2]}") for name, each in zip(names, drawn, strict=True)]
    first = start * runs
    frames = [
        _image(picture, alt, f' data-told="{text}"{"" if number == first else " hidden"}')
        for number, ((picture, alt, _), text) in enumerate(zip(drawn, told, strict=True))
    ]
    name = html.escape(re.sub(r"\\(?:[()]|var)?", "", label))  # as it is read aloud
    again = f' <button type="button" onclick="{_ON_CLICK}">Another run</button>' * (runs > 1)
    if second:
        again = f"\n{_labelled(second[0], _dropdown(list(second[1]), 0, second[0], _ON_SECOND))}"
    markup = (
        f'<div class="explorer" data-runs="{runs}" data-run="0">'
        f"{_labelled(label, _CONTROLS[control](told[::runs], start, name))}{again} "
        f"<output>{told[first]}</output>\n" + "\n".join(frames) + f"\n{note}</div>"
    )
    return Explorer(label, len(frames), markup)


def _labelled(label: str, control: str) -> str:
    return f'<label><span class="mathjax_process">{html.escape(label)}</span> {control}</label>'


def _slider(told: Sequence[str], start: int, name: str) -> str:
    """Return a slider with a position for each text."""
    return (
        f'<input type="range" aria-label="{name}" max="{len(told) - 1}" value="{start}" '
        f'aria-valuetext="{told[start]}" '
        f'oninput="{_ON_INPUT}">'
    )


def _dropdown(told: Sequence[str], start: int, name: str, script: str = _ON_INPUT) -> str:
    """Return a dropdown with these texts."""
    options = "".join(
        f'<option value="{number}"{" selected" if number == start else ""}>{text}</option>'
        for number, text in enumerate(told)
    )
    return f'<select aria-label="{name}" oninput="{script}">{options}</select>'


_CONTROLS = {"slider": _slider, "dropdown": _dropdown}


def _steady(pictures: Sequence[Picture], *, back: int) -> bool:
    """Give pictures of the same axes the same limits and places, so that only what changes moves.

    Behind its own lines and points, each shows those of the picture `back` places before, pale.
    Pictures whose axes differ in number or scale are left alone. Return whether any shows another.
    """
    kinds = {tuple((ax.get_xscale(), ax.get_yscale()) for ax in each.axes) for each in pictures}
    if len(kinds) > 1:
        return False
    shows = False
    for same in zip(*(picture.axes for picture in pictures), strict=True):
        limits = np.array([[*axes.get_xlim(), *axes.get_ylim()] for axes in same])
        places = np.array([axes.get_position(original=True).extents for axes in same])
        lines = [_outline(axes) for axes in same]
        inside = [*places[:, :2].max(axis=0), *places[:, 2:].min(axis=0)]
        for number, axes in enumerate(same):
            axes.set_xlim(_widest(limits[:, :2]))
            axes.set_ylim(_widest(limits[:, 2:]))
            axes.set_position(Bbox.from_extents(*inside))
            for x, y, look in lines[number - back] if number >= back else ():
                shows = True
                axes.plot(x, y, color=GHOST, alpha=0.7, zorder=0.6, label="_ghost", **look)
    for picture in pictures:
        picture.write_names()
    return shows


def _widest(limits: NDArray[np.float64]) -> tuple[float, float]:
    """Return limits that include all the given pairs, in the direction of the first pair."""
    low, high = limits.min(), limits.max()
    return (low, high) if limits[0, 0] <= limits[0, 1] else (high, low)


def _outline(axes: Axes) -> list[tuple[ArrayLike, ArrayLike, dict[str, Any]]]:
    """Return the data of lines and points, each with the style in which its ghost is drawn."""
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
        """Return the names of the controls."""
        return f"Live({', '.join(self.controls)})"


def live(draw: Callable[..., Drawn], **controls: object) -> Live:
    """Return controls that redraw a figure for any values of its parameters, in a running notebook.

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
