"""Settings that all tests share."""

from hypothesis import settings

# The same examples in each run, and no verdict that depends on the speed of the machine.
settings.register_profile("dpbai", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("dpbai")
