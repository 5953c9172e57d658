"""Prices XLA's programs for the starter operators anew, and writes the figures to where the package looks for them first.

    python benchmarks/baselines.py [--chips v5e v6e] [--tasks starter]

Takes about ten minutes per chip where the compiler runs in an emulator. Prints what changed.
"""

from __future__ import annotations

import argparse
import json
import time

from evokernel.backends.pallas.baseline import SHIPPED, Unavailable, key_of, worked_out
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
            before = rows.pop((name, task.id), {"us": None})["us"]
            try:
                found = worked_out(task, chip(name), BUDGET_S)
            except Unavailable as error:
                print(f"{name} {task.id}: {error}")
            else:
                us, key = round(found.us or 0.0, 6), key_of(task, chip(name))
                rows[(name, task.id)] = {"chip": name, "task": task.id, "us": us, "notes": found.notes, "key": key}
                print(f"{name} {task.id}: {us:.2f} us, was {before}, in {time.perf_counter() - start:.0f} s", flush=True)
            lines = ",\n".join(json.dumps(rows[place]) for place in sorted(rows))
            SHIPPED.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
