"""A row for each arm: the releases of a live run, phase by phase, and what runs recommend."""

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

if TYPE_CHECKING:  # the caller has imported sessions
    from dpbai.field.session import Session
    from dpbai.field.session.records import Label, Released

_MOST_ROWS = 40
_LONGEST = 28  # characters of a label


def run_trace(session: Session, *, means: Mapping[Label, float] | None = None) -> Picture:
    """Draw the private estimates of a session in each phase that it has released.

    Parameters
    ----------
    session : Session
        With a phase released at least.
    means : mapping of label to float, optional
        A mean of each arm to compare with, if it is known, as in a rehearsal. The largest has a
        ring.

    Returns
    -------
    Picture
        A panel for each phase and a row for each arm: at the top the recommended one, then those
        that were in play longest, and of these the ones with the largest last estimates. Bars are
        one standard deviation of the noise and, at most, of sampling, from the plan alone.

    Raises
    ------
    ValueError
        If nothing has been released.
    """
    from dpbai.field.session.interval import standard_deviations

    if not session.released:
        raise ValueError("session must have released a phase")
    # The recommended arm, then those estimated last, by their estimates.
    last = {label: released.phase for released in session.released for label in released.active}
    estimates, best = session.estimates, session.recommendation
    order = sorted(estimates, key=lambda arm: (arm != best, -last[arm], -estimates[arm]))
    shown = order[:_MOST_ROWS]
    with rows_of_arms(shown, len(session.released)) as (figure, panels):
        for number, (panel, released) in enumerate(zip(panels, session.released, strict=True)):
            # Rewards in [0, 1] have a standard deviation of 1/2 at most.
            off = standard_deviations(session.phases[: number + 1], 0.5)
            _draw(panel, released, off * session.reward_range.width, shown)
            if means is not None:
                known = [means[label] for label in shown]
                panel.plot(known, range(len(shown)), "|", color=BLACK, label="known mean")
                top = int(np.argmax(known))
                ring: dict[str, Any] = {"markersize": 11, "mfc": "none", "mec": BLACK}
                panel.plot(known[top], top, "o", label="best known", **ring)
        left_out = len(session.labels) - len(shown)
        more = f" ({left_out} arms that were dropped earlier are not shown)" if left_out else ""
        figure.supxlabel(f"private estimate of the mean reward{more}", fontsize=10)
        handles = [handle for panel in panels for handle in panel.get_legend_handles_labels()[0]]
        entries = {str(handle.get_label()): handle for handle in handles}
        figure.legend(handles=[*entries.values()], loc="outside upper center", ncols=len(entries))
    return figure


def _draw(panel: Axes, released: Released, deviations: FloatArray, shown: Sequence[Label]) -> None:
    """Draw the estimates of one phase, and one deviation of each of them."""
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
    """Draw in how many runs each arm was recommended: the best arm, and those with the most."""
    arms = sorted(range(len(labels)), key=lambda arm: (arm != best, -recommended[arm]))
    arms = sorted(arms[:_MOST_ROWS])
    with rows_of_arms([labels[arm] for arm in arms]) as (figure, (panel,)):
        colors = [BLUE if arm == best else GREY for arm in arms]
        panel.barh(range(len(arms)), [recommended[arm] for arm in arms], color=colors)
        rest = "" if len(arms) == len(labels) else "; arms recommended less are left out"
        panel.set_xlabel(f"runs that recommended the arm (the best one in blue{rest})")
    return figure


@contextmanager
def rows_of_arms(labels: Sequence[Label], columns: int = 1) -> Iterator[tuple[Picture, list[Axes]]]:
    """Open panels with a row for each label, none of which is read as a formula.

    Parameters
    ----------
    labels : sequence of int or str
        From the top down.
    columns : int, default 1
        How many panels there are beside each other.

    Yields
    ------
    Picture, and its panels from the left.
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
