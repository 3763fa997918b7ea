"""Figures with a row for each arm: the releases of a session by phase, and recommendations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dpbai._check import FloatArray
from dpbai._describe import visible
from dpbai.field.figures.canvas import BLACK, BLUE, GREY, ORANGE, Picture, canvas

if TYPE_CHECKING:  # otherwise, whoever has a session has imported this
    from dpbai.field.session import Session
    from dpbai.field.session.records import Label, Released

_MOST_ROWS = 40
_LONGEST = 28  # characters of a label


def run_trace(session: Session, *, means: Mapping[Label, float] | None = None) -> Picture:
    """Draw the private estimates of a session in each of its released phases.

    Parameters
    ----------
    session : Session
        At least one phase must have been released.
    means : mapping of label to float, optional
        Known means of all arms to compare with, for example in a rehearsal. A ring marks the
        largest.

    Returns
    -------
    Picture
        A panel for each phase and a row for each arm. The recommended arm is at the top; the others
        follow by the last phase in which they were in play, then by their last estimate. Error bars
        show one standard deviation of noise and sampling, the latter at its largest possible value.

    Raises
    ------
    ValueError
        If nothing has been released.
    """
    from dpbai.field.session.interval import comparable, standard_deviations

    if not session.released:
        raise ValueError("session must have released a phase: complete the first one")
    last = {label: released.phase for released in session.released for label in released.active}
    estimates, best = comparable(session), session.recommendation
    order = sorted(estimates, key=lambda arm: (arm != best, -last[arm], -estimates[arm]))
    shown = order[:_MOST_ROWS]
    with rows_of_arms(shown, len(session.released)) as (figure, panels):
        for number, (panel, released) in enumerate(zip(panels, session.released, strict=True)):
            # The standard deviation of rewards in [0, 1] is at most 1/2.
            deviations = standard_deviations(session.phases[: number + 1], 0.5)
            _draw(panel, released, deviations * session.reward_range.width, shown)
            if means is not None:
                known = [means[label] for label in shown]
                panel.plot(known, range(len(shown)), "|", color=BLACK, label="known mean")
                top = int(np.argmax(known))
                ring: dict[str, Any] = {"markersize": 11, "mfc": "none", "mec": BLACK}
                panel.plot(known[top], top, "o", label="best known", **ring)
        every, left_out = len(session.labels), len(estimates) - len(shown)
        more = f" ({left_out} arms that were dropped earlier are not shown)" if left_out else ""
        if silent := every - len(estimates):
            more += f"\n(not shown: {silent} of {every} arms; the release says nothing about them)"
        figure.supxlabel(f"private estimate of the mean reward{more}", fontsize=10)
        handles = [handle for panel in panels for handle in panel.get_legend_handles_labels()[0]]
        entries = {str(handle.get_label()): handle for handle in handles}
        figure.legend(handles=[*entries.values()], loc="outside upper center", ncols=len(entries))
    return figure


def _draw(panel: Axes, released: Released, deviations: FloatArray, shown: Sequence[Label]) -> None:
    """Draw the estimates of one phase, with error bars of one standard deviation."""
    arms = [arm for arm, label in enumerate(released.active) if label in shown]
    places = np.array([shown.index(released.active[arm]) for arm in arms])
    kept = np.array([released.active[arm] in released.survivors for arm in arms], dtype=bool)
    values, bars = np.array(released.estimates)[arms], deviations[arms]
    last = len(released.survivors) == 1
    chosen = {"label": "recommended", "marker": "*", "color": ORANGE, "markersize": 11}
    for which, look in (
        (~kept, {"label": "dropped", "marker": "x", "color": GREY}),
        (kept, chosen if last else {"label": "kept", "marker": "o", "color": BLUE}),
    ):
        style: dict[str, Any] = look | {"linestyle": "none", "linewidth": 1}
        panel.errorbar(values[which], places[which], xerr=bars[which], **style)
    panel.set_title(f"phase {released.phase}: {len(released.active)} to {len(released.survivors)}")
    panel.xaxis.set_major_locator(MaxNLocator(4))


def recommended_counts(labels: Sequence[str], recommended: Sequence[int], best: int) -> Picture:
    """Draw in how many runs each arm was recommended, for the best and the most frequent arms."""
    arms = sorted(range(len(labels)), key=lambda arm: (arm != best, -recommended[arm]))
    arms = sorted(arms[:_MOST_ROWS])
    with rows_of_arms([labels[arm] for arm in arms]) as (figure, (panel,)):
        colors = [BLUE if arm == best else GREY for arm in arms]
        panel.barh(range(len(arms)), [recommended[arm] for arm in arms], color=colors)
        rest = "" if len(arms) == len(labels) else "; arms recommended less often are left out"
        panel.set_xlabel(f"runs that recommended the arm (the best one in blue{rest})")
    return figure


@contextmanager
def rows_of_arms(labels: Sequence[Label], columns: int = 1) -> Iterator[tuple[Picture, list[Axes]]]:
    """Open panels with a row for each label. Labels are not parsed as formulas.

    Parameters
    ----------
    labels : sequence of int or str
        From top to bottom.
    columns : int, default 1
        Number of panels side by side.

    Yields
    ------
    Picture, and its panels from left to right.
    """
    size = (6.6, 1.3 + 0.21 * len(labels))
    with (
        plt.rc_context({"text.parse_math": False}),
        canvas(1, columns, size=size, sharex=True, sharey=True, squeeze=False) as (figure, axes),
    ):
        panels = list(axes[0])
        panels[0].set_yticks(range(len(labels)), [_short(str(label)) for label in labels])
        panels[0].set_ylim(len(labels) - 0.5, -0.5)
        yield figure, panels


def _short(text: str) -> str:
    text = visible(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
