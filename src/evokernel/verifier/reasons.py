"""One stable word for every way to fail. Reports count the words; the next prompt shows the detail that comes with them."""

from __future__ import annotations

REASONS = {
    "no_code": "the reply contains no usable source file",
    "duplicate": "the candidate is nearly identical to an earlier attempt on the task, and was not verified",
    "forbidden": "the source or the built object uses something that a kernel must not use",
    "tunable": "a comment that declares a tunable is malformed",
    "trace_error": "tracing the kernel raised an exception",
    "shape": "tensor shapes do not match",
    "dtype": "the device does not support the operation for this data type",
    "block_shape": "the device does not support the block shape",
    "alignment": "an index or offset is not provably a multiple of the tile size",
    "unsupported": "an operation cannot be compiled for the device",
    "vmem": "the kernel does not fit into the device's vector memory (VMEM)",
    "local_memory": "the kernel does not fit into a core's local memory",
    "queue": "queue buffers are allocated, enqueued, dequeued or freed in the wrong order",
    "event": "an event flag is set or waited for in the wrong order",
    "mask": "a mask, repeat count or stride exceeds the limits of an instruction",
    "tiling": "the host-side tiling fails, or does not match the kernel",
    "compile_error": "the compiler rejected the source",
    "build_timeout": "the compiler did not finish in time",
    "launch": "the device does not support the shape or size of a launch",
    "stream": "the kernel uses another stream than the one it received, or synchronizes with the device",
    "not_run": "the kernel was compiled, but this machine has no device to run it",
    "symbol": "the entry point, or a function that it needs, is missing",
    "mismatch": "output values differ from the reference",
    "unwritten": "output elements were never written",
    "nan": "the output is NaN where the reference has a number",
    "nondeterministic": "two runs on equal inputs give different results",
    "out_of_bounds": "the kernel read or wrote outside its tensors",
    "use_after_free": "the kernel used memory after freeing it",
    "undefined": "undefined behaviour: uninitialized memory, division by zero, or a shift that is too large",
    "leak": "every call leaks memory",
    "inputs": "the kernel changed its inputs",
    "race": "a data race: memory is accessed while a copy or another core accesses it",
    "crash": "the kernel crashed with a signal",
    "exit": "the kernel ended its own process",
    "timeout": "the kernel did not finish in time",
    "disk": "the candidate process wrote more files than allowed",
    "memory": "the kernel exceeded its memory limit",
    "raised": "loading or calling the kernel raised an exception",
    "killed": "the candidate process was killed from outside in every attempt",
    "no_latency": "the latency can be neither measured nor estimated",
    "vetoed": "the LLM review refused the kernel",
    "revoked": "the kernel passed, and was revoked later for cheating",
    "impossible": "the measured time is shorter than moving the data takes",
}
MAX_CHARS = 4000


def sanitize_text(text: str) -> str:
    """Return printable text of bounded length: details may quote text that a candidate wrote."""
    plain = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    return plain if len(plain) <= MAX_CHARS else plain[: MAX_CHARS - 1] + "…"
