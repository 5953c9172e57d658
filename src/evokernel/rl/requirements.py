"""Says in one line how to install the packages that reinforcement learning needs."""

from __future__ import annotations

from importlib.util import find_spec

from evokernel.core.errors import UserError


def require_packages(*names: str) -> None:
    """Raise UserError if a package is not installed."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise UserError(f"this needs {' and '.join(missing)}. Install with: pip install 'evokernel[rl]'")
