"""What a live run released, phase by phase."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MultipleLocator

from dpbai.figures.canvas import BLACK, BLUE, GREY, ORANGE, Picture, canvas
from dpbai.policies import Phase
from dpbai.session import Session
from dpbai.session.records import Label, Released

_REWARD_VARIANCE = 0.25  # the largest that rewards in [0, 1] can have


def run_trace(session: Session, *, means: Mapping[Label, float] | None = None) -> Picture:
    """Draw the private estimates of a session in each phase that it has released.

    Parameters
    ----------
    session : Session
        With a phase released at least.
    means : mapping of label to float, optional
        Of each arm, a mean to compare with; in a rehearsal it is known.

    Returns
    -------
    Picture
        A panel for each phase and a row for each arm. Bars are one standard deviation of the noise
        and, at most, of sampling, from the plan alone.

    Raises
    ------
    ValueError
        If nothing has been released.
    """
    if not session.released:
        raise ValueError("session must have released a phase")
    rows = {label: row for row, label in enumerate(session.labels)}
    count = len(session.released)
    with canvas(
        1, count, size=(6.6, 1.3 + 0.21 * len(rows)), sharex=True, sharey=True, squeeze=False
    ) as (
        figure,
        ((*panels,),),
    ):
        for panel, released in zip(panels, session.released, strict=True):
            active = [rows[label] for label in released.active]
            _released(panel, released, session.policy.phase(released.phase, active), rows)
            if means is not None:
                known = [means[label] for label in session.labels]
                panel.plot(known, list(rows.values()), "|", color=BLACK, label="known mean")
        panels[0].set(yticks=list(rows.values()), yticklabels=list(map(str, rows)))
        panels[0].invert_yaxis()
        figure.supxlabel("private estimate of the mean reward", fontsize=10)
        entries = {
            label: handle
            for panel in panels
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            entries.values(), entries.keys(), loc="outside upper center", ncols=len(entries)
        )
    return figure


def _released(panel: Axes, released: Released, phase: Phase, rows: Mapping[Label, int]) -> None:
    """Draw the estimates of one phase."""
    # In the order of the plan, which lists arms by number.
    names = {row: label for label, row in rows.items()}
    estimate = dict(zip(released.active, released.estimates, strict=True))
    values = np.array([estimate[names[arm]] for arm in phase.active])
    weights = phase.decoder @ phase.release
    sampling = (weights**2 / np.array(phase.pulls)).sum(axis=1) * _REWARD_VARIANCE
    noise = phase.noise.standard_deviation**2 * (phase.decoder**2).sum(axis=1)
    deviations = np.sqrt(sampling + noise)
    arms = np.array(phase.active)
    kept = np.isin(arms, [rows[label] for label in released.survivors])
    last = len(released.survivors) == 1
    chosen = {"label": "recommended", "marker": "*", "color": ORANGE, "markersize": 11}
    for which, look in (
        (~kept, {"label": "dropped", "marker": "x", "color": GREY}),
        (kept, chosen if last else {"label": "kept", "marker": "o", "color": BLUE}),
    ):
        panel.errorbar(
            values[which],
            arms[which],
            xerr=deviations[which],
            linestyle="none",
            linewidth=1,
            **look,
        )
    panel.set_title(f"phase {released.phase}: {len(arms)} to {len(released.survivors)}")
    panel.xaxis.set_major_locator(MultipleLocator(0.2))
