"""Value-driven memory for kernel synthesis: `import evokernel as ek`. Importing this imports nothing else; names load at first use."""

__version__ = "0.2.0"

MODULES = {
    "tasks": ("Task", "TaskList", "task", "tasks"),
    "verifications": ("Verification", "Verifications", "averify", "averify_many", "verify", "verify_many"),
    "workers": ("close_workers",),
    "runs": ("Run", "arun", "open_run", "run"),
    "kernels": ("Export", "Kernel"),
    "frames": ("attempts_df", "values_df"),
    "comparisons": ("Comparison", "compare"),
    "operators": ("Replacement", "Replacements", "replace_operators", "replacements"),
    "errors": ("EvoKernelError", "InfraError", "UserError"),
}
"""The public names by the module of `evokernel.api` that defines them; `__init__.pyi` tells type checkers the same."""
PUBLIC_NAMES = {name: module for module, names in MODULES.items() for name in names}
__all__ = ["__version__", *sorted(PUBLIC_NAMES)]


def __getattr__(name: str) -> object:
    """Load a public name at its first use."""
    if name not in PUBLIC_NAMES:
        raise AttributeError(f"module 'evokernel' has no attribute '{name}'")
    from importlib import import_module

    value = getattr(import_module(f"evokernel.api.{PUBLIC_NAMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC_NAMES})
