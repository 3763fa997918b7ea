"""`python -m dpbai`: plan, run and study from the command line, see `dpbai.field.cli`."""

import sys

from dpbai.field.cli import main

if __name__ == "__main__":
    sys.exit(main())
