"""A second copy of Triton's modules, whose own `@triton.jit` functions (`tl.sum`, `tl.max`, ...) are interpreted.

Triton decides while it is imported whether those functions are compiled or interpreted. The process that compiles kernels is also the one
that is forked to interpret them, so it holds both copies; a fork that interprets makes the second one its Triton.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

VARIABLE = "TRITON_INTERPRET"
EXTENSION = "triton._C"
"""The compiled extension, which a process can load only once; both copies use it."""
PRELOADED = ("triton", "triton.language", "triton.runtime.interpreter", "triton.language.extra.libdevice", "triton.experimental.gluon")
copy: dict[str, ModuleType] = {}


def load_interpreting_copy() -> None:
    """Load the copy and put it aside: `import triton` still loads the one that compiles. Does nothing if it is loaded."""
    if copy:
        return
    compiling = remove_triton()
    user_value = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "1"
    try:
        for name in PRELOADED:
            importlib.import_module(name)
        sys.modules["triton"].knobs.runtime.interpret = True  # after the variable is gone again
    finally:
        os.environ.pop(VARIABLE)
        if user_value is not None:
            os.environ[VARIABLE] = user_value
        copy.update(remove_triton())
        sys.modules.update(compiling)


def use_interpreting_copy() -> None:
    """Make the copy this process's Triton from now on. Modules that have imported Triton keep the one they have."""
    load_interpreting_copy()
    remove_triton()
    sys.modules.update(copy)


def remove_triton() -> dict[str, ModuleType]:
    """Remove Triton's Python modules from the loaded modules and return them."""
    names = [name for name in sys.modules if name == "triton" or (name.startswith("triton.") and not name.startswith(EXTENSION))]
    return {name: sys.modules.pop(name) for name in names}
