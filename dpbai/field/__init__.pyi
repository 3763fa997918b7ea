from . import cli, figures, session

__all__ = ["cli", "figures", "session"]
