"""Estimates XLA's programs for the starter operators and writes the results to the file that the package reads first.

    python benchmarks/baselines.py [--chips v5e v6e] [--tasks starter] [--size laptop|full]

Takes about ten minutes per chip if the compiler runs in an emulator. Prints the old and the new figures.
"""

from __future__ import annotations

import argparse
import json
import time

from evokernel.backends.pallas.baseline import SHIPPED_FILE, BaselineUnavailable, baseline_key, compute_baseline
from evokernel.backends.pallas.chips import get_chip
from evokernel.suites.loader import load_tasks

BUDGET_S = 1800.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chips", nargs="+", default=["v5e", "v6e"])
    parser.add_argument("--tasks", default="starter")
    parser.add_argument("--size", choices=["laptop", "full"], default="laptop")
    args = parser.parse_args()
    rows = (
        {(row["chip"], row["task"], row.get("size", "laptop")): row for row in json.loads(SHIPPED_FILE.read_text())}
        if SHIPPED_FILE.exists()
        else {}
    )
    for name in args.chips:
        for task in load_tasks(args.tasks, args.size):
            start = time.perf_counter()
            before = rows.pop((name, task.id, args.size), {"us": None})["us"]
            try:
                baseline = compute_baseline(task, get_chip(name), BUDGET_S)
            except BaselineUnavailable as error:
                print(f"{name} {task.id}: {error}")
            else:
                us, key = round(baseline.us or 0.0, 6), baseline_key(task, get_chip(name))
                row = {"chip": name, "task": task.id, "size": args.size, "us": us, "notes": baseline.notes, "key": key}
                rows[(name, task.id, args.size)] = row
                print(f"{name} {task.id}: {us:.2f} us, was {before}, in {time.perf_counter() - start:.0f} s", flush=True)
            lines = ",\n".join(json.dumps(rows[row_key]) for row_key in sorted(rows))
            SHIPPED_FILE.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
