"""Compiles kernels without optimisation in half the time; rule violations do not depend on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def quick_builds() -> Iterator[None]:
    """While this lasts, in this process."""
    from evokernel.backends.ascendc import build

    plain = tuple(option for option in build.KERNEL_FLAGS if option not in build.OPTIMIZE_FLAGS)
    with patch.object(build, "KERNEL_FLAGS", (*plain, "-O0")):
        yield
