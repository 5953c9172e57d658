"""Make two runs with different policies, look at their attempts as a data frame, and compare them with intervals.

The clock is synthetic, so that the example takes seconds: its latencies are invented. Leave `clock` out to measure.
"""

import sys
from pathlib import Path

import evokernel as ek


def main(folder: Path) -> None:
    tasks = ["starter/sum_rows", "starter/gelu"]
    settings = {"backend": "cpp", "budget": 2, "fresh": True, "clock": "synthetic", "protocol": "paper", "workers": 1}
    value = ek.run(tasks, policy="value", folder=folder / "value", **settings)
    passk = ek.run(tasks, policy="passk", folder=folder / "passk", **settings)

    frame = ek.attempts_df([value, passk])
    print(frame.groupby(["policy", "task"])[["correct", "latency_us"]].agg({"correct": "sum", "latency_us": "min"}))

    comparison = ek.compare(value, passk)
    print(comparison)
    comparison.plot().figure.savefig(folder / "comparison.png")
    print(f"wrote {folder / 'comparison.png'} and {value.report()}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "comparison"))
