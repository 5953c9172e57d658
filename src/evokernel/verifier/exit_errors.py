"""Explains how a candidate process ended: maps its exit code or signal to a CandidateError."""

from __future__ import annotations

import signal

from evokernel.core.errors import CandidateError

EXTERNAL_SIGNALS = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT}
"""Signals that no fault in a kernel raises: another process, or the system when memory is short, sent them."""

OUT_OF_MEMORY_TEXTS = ("out of memory", "cannot allocate memory")
SIGNAL_CAUSES = {
    signal.SIGSEGV: ": it read or wrote outside its tensors (inputs are read-only), or a stack array is too large",
    signal.SIGBUS: ": it read or wrote outside its tensors, or at a misaligned address",
    signal.SIGFPE: ": usually an integer division by zero",
    signal.SIGILL: ": it used an instruction that this processor does not support",
}


def make_exit_error(exit_code: int, stderr_text: str) -> CandidateError:
    """Return the error for a process that ended without a reply; a negative exit code is a signal."""
    stderr_note = f": {stderr_text}" if stderr_text else ""
    if "bad_alloc" in stderr_text or any(text in stderr_text.lower() for text in OUT_OF_MEMORY_TEXTS):
        return CandidateError(
            "memory", "the kernel exceeded its memory limit: allocate less scratch memory, and free it before the call returns"
        )
    if exit_code >= 0:
        return CandidateError("exit", f"the kernel ended its process with exit code {exit_code} instead of returning{stderr_note}")
    if -exit_code not in list(signal.Signals):
        return CandidateError("crash", f"the kernel ended with signal {-exit_code}, which no fault in a kernel raises")
    return make_signal_error(signal.Signals(-exit_code), stderr_note)


def make_signal_error(signal_number: signal.Signals, stderr_note: str) -> CandidateError:
    """Return the error for a process that a signal ended."""
    if signal_number == signal.SIGSYS:
        return CandidateError(
            "forbidden",
            "the kernel was terminated for a disallowed system call (SIGSYS): "
            "use no files, processes, network or signals, and no threads beyond those allowed",
        )
    if signal_number in EXTERNAL_SIGNALS:
        return CandidateError("killed", f"the candidate process was killed from outside ({signal_number.name})")
    if signal_number == signal.SIGXCPU:
        return CandidateError(
            "timeout", "the kernel exceeded its CPU time limit (SIGXCPU): reduce the work per call, or fix a loop that does not end"
        )
    description = f"{signal_number.name} ({signal.strsignal(signal_number)})"
    return CandidateError("crash", f"the kernel crashed with {description}{SIGNAL_CAUSES.get(signal_number, '')}{stderr_note}")
