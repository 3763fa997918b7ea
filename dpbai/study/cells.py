"""The finished cells of a study, in a file that grows line by line, so that it can be resumed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from dpbai._describe import plain, restored
from dpbai.simulate import Simulation

_FORMAT, _VERSION = "dpbai study", 2


class CellFile:
    """Finished cells of one study, one JSON line each.

    Parameters
    ----------
    path : path-like
        A new file, or one that the same study has begun; a last line that was cut short is dropped.
    fingerprint : str
        Of all that decides the results: grid, instance, trials and seed.

    Raises
    ------
    ValueError
        If the file holds anything but cells of this study; it is left as it is.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        self.path = Path(path)
        head = {"format": _FORMAT, "version": _VERSION, "fingerprint": fingerprint}
        self._head = json.dumps(head) + "\n"
        if not self.path.exists() or not self.path.stat().st_size:
            self._append(self._head)

    def read(self, cells: int, arms: int, trials: int) -> dict[int, Simulation]:
        """Return the finished ones of so many cells, by number."""
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        head, *lines = whole.decode(errors="replace").splitlines(keepends=True) or [""]
        if head != self._head:
            raise ValueError(
                f"path must be a new file or one that this very study has begun (same policies, "
                f"grid, instance, trials, seed), and {self.path} is neither"
            )
        results = {}
        for number, line in enumerate(lines, start=2):
            try:
                cell, described = json.loads(line)
                values = {key: restored(value) for key, value in described.items()}
                del values["class"]
                recommended = np.array(values.pop("recommended"), dtype=np.int64)
                values["gaps"] = np.array(values["gaps"], dtype=np.float64)
                result = Simulation(recommended=recommended, **values)
                fits = recommended.shape == result.gaps.shape == (arms,) and result.trials == trials
                if not fits or (recommended < 0).any() or cell not in range(cells):
                    raise ValueError
            except (ValueError, TypeError, KeyError, AttributeError):
                raise ValueError(f"line {number} of {self.path} is damaged") from None
            results[cell] = result
        if len(whole) < len(data):
            os.truncate(self.path, len(whole))
        return results

    def add(self, cell: int, result: Simulation) -> None:
        """Write one finished cell, and wait until it is on the disk."""
        self._append(json.dumps([cell, plain(result)]) + "\n")

    def _append(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
