"""Three kinds of trouble, and one clean stop. Anything else is a bug and should crash with its traceback."""


class UserError(Exception):
    """Something the person at the keyboard can fix; the message says how. The command line prints it and exits with 2."""


class CandidateError(Exception):
    """The generated kernel is at fault. Never leaves `verify`: it becomes a GateResult."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason, self.detail = reason, detail or reason


class InfraError(Exception):
    """A device, worker, network or model service is at fault. Retried; never rewarded."""


class StopRun(Exception):
    """A limit the user set (money, tokens) is reached: the run ends cleanly and can be resumed."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether that is what an error says; torch has no type for it."""
    return isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error)


class ToolUnavailable(Exception):
    """A gate that cannot do its work on this machine: it is not passed, it is missing, and the outcome says so."""
