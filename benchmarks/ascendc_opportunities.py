"""Compares the opportunities in profiles of Ascend C kernels with the truth: each kernel has a fault, and a version without it is timed.

    python benchmarks/ascendc_opportunities.py [--only tiny_tiles,barriers] [--all]

`benchmarks/opportunities/ascendc/NAME.faulty.asc` has one fault, `NAME.fixed.asc` does not. Both pass all gates of the verifier. The script
prints the largest opportunity of the faulty kernel, the predicted and the actual gain, and whether both the cause and the gain
(within 25 %) are right. With `--all`, it prints every opportunity of the faulty kernels.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from evokernel.core.records import Opportunity, Outcome

HERE = Path(__file__).parent / "opportunities"
CLOSE = 0.25
"""Allowed error of a predicted gain, as a share of the actual gain."""


class Pair(NamedTuple):
    """A kernel with a fault, the operator that it computes, and the cause that its profile should name."""

    name: str
    operator: str
    cause: str


PAIRS = (
    Pair("single_buffer", "gate", "no_overlap"),
    Pair("tiny_tiles", "gate", "small_copies"),
    Pair("one_core", "gate", "few_cores"),
    Pair("few_cores", "gate", "few_cores"),
    Pair("tail_wave", "gate", "uneven_work"),
    Pair("uneven_blocks", "gate", "uneven_work"),
    Pair("barriers", "gate", "synchronisation"),
    Pair("sync_each_tile", "gate", "synchronisation"),
    Pair("scalar_loop", "gate", "scalar_work"),
    Pair("scalar_global", "gate", "scalar_work"),
    Pair("extra_pass", "gate", "excess_traffic"),
    Pair("unaligned_rows", "gate", "unaligned_copies"),
    Pair("short_calls", "gate", "step_overhead"),
    Pair("excess_vector", "gate", "vector_work"),
    Pair("row_reductions", "sums", "cross_lane"),
    Pair("product_on_vector", "product", "product_on_vector"),
    Pair("cube_few_cores", "product", "few_cores"),
    Pair("two_objects", "product", "library_start"),
    Pair("sums_half_cores", "sums", "few_cores"),
    Pair("sums_row_by_row", "sums", "small_copies"),
    Pair("sums_single_buffer", "sums", "no_overlap"),
    Pair("sums_two_reads", "sums", "excess_traffic"),
)
"""The last four were added after the rules were fixed."""


class Comparison(NamedTuple):
    """The largest opportunity of a faulty kernel, and what the fix gained."""

    pair: Pair
    faulty_us: float
    fixed_us: float
    opportunities: tuple[Opportunity, ...]

    @property
    def top(self) -> Opportunity | None:
        return self.opportunities[0] if self.opportunities else None

    @property
    def names_fault(self) -> bool:
        return self.top is not None and self.top.cause == self.pair.cause

    @property
    def error(self) -> float | None:
        """Error of the predicted gain, as a share of the actual one; None without a prediction."""
        actual = self.faulty_us - self.fixed_us
        return self.top.gain_us / actual - 1 if self.top and actual > 0 else None

    @property
    def is_right(self) -> bool:
        return self.names_fault and self.error is not None and abs(self.error) <= CLOSE


@cache
def verify_kernel(text: str, operator: str) -> Outcome:
    """Verify a kernel through all gates; kernels with equal texts once."""
    from evokernel.app.factory import load_sized_tasks
    from evokernel.app.verification import verify_candidate
    from evokernel.core.config import resolve_config
    from evokernel.core.records import Candidate

    base = {"backend": {"name": "ascendc", "toolchain": "simulator"}}
    config = resolve_config(None, ("protocol=paper",), base=base, workers=1)
    (task,) = load_sized_tasks(config, str(HERE / f"{operator}.py"))
    outcome = verify_candidate(config, task, Candidate(backend="ascendc", files={"kernel.asc": text}), ("eager",))
    if not outcome.feasible:
        raise SystemExit("\n".join(gate.detail for gate in outcome.gates if not gate.passed))
    return outcome


def compare_pair(pair: Pair) -> Comparison:
    """Verify both kernels of a pair."""
    texts = [(HERE / "ascendc" / f"{pair.name}.{version}.asc").read_text(encoding="utf-8") for version in ("faulty", "fixed")]
    faulty, fixed = (verify_kernel(text, pair.operator) for text in texts)
    assert faulty.latency_us is not None
    assert fixed.latency_us is not None
    return Comparison(pair, faulty.latency_us, fixed.latency_us, faulty.profile.opportunities if faulty.profile else ())


def format_lines(comparisons: Collection[Comparison]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| kernel | fault | faulty, µs | fixed, µs | largest opportunity | predicted gain, µs | actual gain, µs | error | right |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for one in comparisons:
        cause, gain = (one.top.cause, f"{one.top.gain_us:.2f}") if one.top else ("none", "not reported")
        error = f"{100 * one.error:+.0f} %" if one.error is not None else "not reported"
        times = f"{one.faulty_us:.2f} | {one.fixed_us:.2f} | {cause} | {gain} | {one.faulty_us - one.fixed_us:.2f}"
        yield f"| {one.pair.name} | {one.pair.cause} | {times} | {error} | {'yes' if one.is_right else 'no'} |"
    named, right = (sum(flag for flag in flags) for flags in zip(*((one.names_fault, one.is_right) for one in comparisons)))
    yield f"\nThe largest opportunity names the fault in {named} of {len(comparisons)}, with a gain within 25 % in {right}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of kernels, separated by commas")
    parser.add_argument("--all", action="store_true", help="print every opportunity of the faulty kernels")
    args = parser.parse_args()
    only = set(filter(None, args.only.split(",")))
    if unknown_names := only - {pair.name for pair in PAIRS}:
        raise SystemExit(f"unknown kernels: {', '.join(sorted(unknown_names))}; known: {', '.join(pair.name for pair in PAIRS)}")
    comparisons = []
    for pair in PAIRS:
        if only and pair.name not in only:
            continue
        comparisons.append(compare_pair(pair))
        if args.all:
            print(f"{pair.name}: {comparisons[-1].faulty_us:.2f} to {comparisons[-1].fixed_us:.2f} µs")
            for one in comparisons[-1].opportunities:
                print(f"    {one.cause} {one.gain_us:.2f} µs, line {one.line} ({one.card}): {one.summary}", flush=True)
    print("\n".join(format_lines(comparisons)))


if __name__ == "__main__":
    main()
