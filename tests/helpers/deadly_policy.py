"""A policy that kills the worker that runs it; a module, so that workers can import it."""

import os
from dataclasses import KW_ONLY, dataclass, field

import dpbai


@dataclass(frozen=True, eq=False)
class Deadly(dpbai.DPBAI):
    """DP-BAI in the process that made it; elsewhere, the end of that process."""

    _: KW_ONLY
    home: int = field(default_factory=os.getpid)

    def phase(self, index, active):
        if os.getpid() != self.home:
            os._exit(1)
        return super().phase(index, active)
