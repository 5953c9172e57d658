"""Exceptions by responsibility: user, candidate, infrastructure; and one for a clean stop. Any other exception is a bug."""


class EvoKernelError(Exception):
    """Base of the exceptions that a caller may want to handle: `UserError` and `InfraError`. The message is one line."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback: the message says what to do."""
        return [f"{type(self).__name__}: {self}"]


class UserError(EvoKernelError):
    """An error that the user can fix; the message says how. The command line prints it and exits with status 2."""


class CandidateError(Exception):
    """An error of the generated kernel. The verifier turns it into a GateResult."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason, self.detail = reason, detail or reason


class InfraError(EvoKernelError):
    """A failure of a device, worker, network or model service. It is retried and earns no reward."""


class StopRun(Exception):
    """The run reached a limit that the user set (money, tokens). It ends cleanly and can be resumed."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error reports exhausted memory; torch has no exception type for it."""
    return isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error) or is_device_out_of_memory(error)


def is_device_out_of_memory(error: BaseException) -> bool:
    """Return whether an error reports that PyTorch found too little memory on a GPU."""
    return "CUDA out of memory" in str(error)


class ToolUnavailable(Exception):
    """A gate's tool does not work on this machine. The verifier skips the gate and records that in the outcome."""
