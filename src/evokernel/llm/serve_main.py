"""The process that serves a model on the loopback interface: it loads the model with xllamacpp and answers until it gets a signal.

`python -m evokernel.llm.serve_main FILE PORT THREADS CONTEXT NAME`; `evokernel model start` starts it with these arguments.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

HOST = "127.0.0.1"
PROMPT_CACHE_MIB = 2048
"""Prompts of one task have a common beginning, which the cache saves the model from reading again."""


def make_parameters(file: str, port: int, threads: int, context: int, name: str) -> Any:
    """The parameters of the xllamacpp server."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = file
    parameters.model_alias = {name}
    parameters.hostnames, parameters.port = [HOST], port
    parameters.n_ctx, parameters.n_parallel = context, 1
    # Threads that share cores with others wait for each other, so both thread pools have the same size.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.cache_ram_mib = PROMPT_CACHE_MIB
    parameters.ui = False
    return parameters


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    import xllamacpp

    file, port, threads, context, name = sys.argv[1:]
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # before any thread starts, so that only this thread receives them
    server = xllamacpp.Server(make_parameters(file, int(port), int(threads), int(context), name))
    sys.stderr.write(f"{name} answers at {server.listening_address}\n")
    sys.stderr.flush()
    signal.sigwait(signals)
    os._exit(0)


if __name__ == "__main__":
    main()
