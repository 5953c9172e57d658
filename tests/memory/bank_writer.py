"""A process that writes to a bank as a run does: `bank_writer.py PATH RUN ATTEMPTS`; prints the number of each finished attempt."""

import sys

from evokernel.core.bank_uri import parse_location
from evokernel.core.plugins import make_plugin
from evokernel.core.records import MemoryItem, Stage
from evokernel.memory.bank import Bank

path, run, attempts = parse_location(sys.argv[1]), sys.argv[2], int(sys.argv[3])
bank = Bank.open(path, make_plugin("embedder", "hash"), backend="cpp", run=run)
for n in range(attempts):
    bank.update(f"t/x/{n}", Stage.DRAFT, {"shared": (n % 5) / 2 - 1}, 0.3)
    bank.add([MemoryItem(id=f"{run}:t/x/{n}", kind="trace", backend="cpp", title="t", text=f"word{n}", task="t/x")])
    print(n, flush=True)
bank.close()
