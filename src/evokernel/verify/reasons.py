"""One stable word per way to fail. Reports count them; the next generation reads the detail that comes with them."""

from __future__ import annotations

REASONS = {
    "no_code": "the reply held no usable source file",
    "known": "nearly the same as an earlier attempt on the task: not verified",
    "forbidden": "the text or the built object reaches for something a kernel has no business with",
    "trace_error": "it raised an exception while it was traced",
    "shape": "shapes do not fit together",
    "dtype": "the device has no such operation for this type",
    "block_shape": "a block's shape is not one the device can take",
    "alignment": "an index or offset is not known to be a multiple of a tile",
    "unsupported": "an operation that cannot be compiled for the device",
    "vmem": "it does not fit into the device's fast memory",
    "local_memory": "it does not fit into a core's local memory",
    "queue": "buffers of a queue are taken, passed on or given back out of turn",
    "event": "a flag is set or waited for out of turn",
    "mask": "a mask, repeat or stride is beyond what an instruction takes",
    "tiling": "the host side fails, or does not fit the kernel",
    "compile_error": "the compiler refused it",
    "build_timeout": "the compiler did not finish in time",
    "launch": "a launch has a shape or a size that the device does not take",
    "stream": "work is put on another stream than the one given, or waits for the device",
    "not_run": "it was compiled, and there is no device here to run it on",
    "symbol": "the entry point or a function it needs is missing",
    "mismatch": "wrong values",
    "unwritten": "elements of the output were never written",
    "nan": "NaN where the reference has a number",
    "nondeterministic": "two runs on equal inputs differ",
    "out_of_bounds": "it read or wrote outside its tensors",
    "use_after_free": "it used memory after giving it back",
    "undefined": "what it does is not defined: memory that was never set, a division by zero, a shift too far",
    "leak": "every call leaves memory allocated",
    "inputs": "it changed its inputs",
    "race": "it reads or writes memory while a copy or another core does",
    "crash": "the process died of a signal",
    "exit": "the kernel ended its own process",
    "timeout": "it did not finish in time",
    "disk": "it wrote more than it may",
    "memory": "it asked for more memory than there is for it",
    "raised": "loading or calling it raised an exception",
    "killed": "its process was killed from outside, every time it was tried",
    "unpriced": "its latency can be neither measured nor estimated",
    "vetoed": "a model that looked at the code refused it",
    "revoked": "it passed, and was found out later",
    "impossible": "it was timed faster than its outputs can be written",
}
LIMIT = 4000


def clean(text: str) -> str:
    """Printable, of bounded length: details may quote what a candidate wrote."""
    plain = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    return plain if len(plain) <= LIMIT else plain[: LIMIT - 1] + "…"
