"""Kernels compiled without optimisation, in half the time: what breaks a rule does not depend on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def quick_builds() -> Iterator[None]:
    """While this lasts, in this process."""
    from evokernel.backends.ascendc import build

    plain = tuple(option for option in build.KERNEL if option not in build.OPTIMISED)
    with patch.object(build, "KERNEL", (*plain, "-O0")):
        yield
