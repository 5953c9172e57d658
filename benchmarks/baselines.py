"""Prices XLA's programs for the starter operators anew, and writes the figures to where the package looks for them first.

    python benchmarks/baselines.py [--chips v5e v6e] [--tasks starter]

Takes about ten minutes per chip where the compiler runs in an emulator. Prints what changed.
"""

from __future__ import annotations

import argparse
import json
import time

from evokernel.backends.pallas.baseline import SHIPPED, key_of, worked_out
from evokernel.backends.pallas.chips import chip
from evokernel.tasks.loader import load

BUDGET_S = 1800.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chips", nargs="+", default=["v5e", "v6e"])
    parser.add_argument("--tasks", default="starter")
    args = parser.parse_args()
    rows = {(row["chip"], row["task"]): row for row in json.loads(SHIPPED.read_text())} if SHIPPED.exists() else {}
    for name in args.chips:
        for task in load(args.tasks):
            start = time.perf_counter()
            found = worked_out(task, chip(name), BUDGET_S)
            before = rows.pop((name, task.id), {"us": None})["us"]
            now = found.reason if found.us is None else f"{found.us:.2f} us"
            print(f"{name} {task.id}: {now}, was {before}, in {time.perf_counter() - start:.0f} s", flush=True)
            if found.us is not None:
                row = {"chip": name, "task": task.id, "us": round(found.us, 6), "notes": found.notes, "key": key_of(task, chip(name))}
                rows[(name, task.id)] = row
            lines = ",\n".join(json.dumps(rows[place]) for place in sorted(rows))
            SHIPPED.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
