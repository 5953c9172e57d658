"""The process that serves a model on loopback: loads it with xllamacpp and answers until it is told to end.

`python -m evokernel.llm.serve_main FILE PORT THREADS CONTEXT NAME`; `evokernel model start` starts it, and knows its arguments.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

HOST = "127.0.0.1"
PROMPT_CACHE_MIB = 2048
"""Prompts of one task begin alike; what was read of earlier ones need not be read again."""


def parameters(file: str, port: int, threads: int, context: int, name: str) -> Any:
    """What the engine is told."""
    import xllamacpp

    made = xllamacpp.CommonParams()
    made.model.path = file
    made.model_alias = {name}
    made.hostnames, made.port = [HOST], port
    made.n_ctx, made.n_parallel = context, 1
    # Threads that share cores with others wait for each other, so the two pools never differ.
    made.cpuparams.n_threads = made.cpuparams_batch.n_threads = threads
    made.cache_ram_mib = PROMPT_CACHE_MIB
    made.ui = False
    return made


def main() -> None:
    """Serves until SIGTERM or SIGINT."""
    import xllamacpp

    file, port, threads, context, name = sys.argv[1:]
    endings = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, endings)  # before there are threads: only this one waits for them
    server = xllamacpp.Server(parameters(file, int(port), int(threads), int(context), name))
    sys.stderr.write(f"{name} answers at {server.listening_address}\n")
    sys.stderr.flush()
    signal.sigwait(endings)
    os._exit(0)


if __name__ == "__main__":
    main()
