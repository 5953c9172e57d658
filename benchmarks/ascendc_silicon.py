"""Compares verdicts of the Ascend C simulator with verdicts of a real NPU, on kernels that others published with their logs.

    git -C LLM4AscendC archive czh_br output vendor | tar x -C CHECKOUT
    python benchmarks/ascendc_silicon.py CHECKOUT [--operators relu,softmax] [--limit 50] [--out FOLDER]

CHECKOUT holds records (`output/**/*_summary.json`), six-part texts and references (`vendor/mkb/reference`). The simulator runs every
kernel of the sample at level `hardware` with the tolerance of the records, |actual - reference| <= 1e-4 + 1e-4 |actual|. If the tensors
of a reference exceed `--max-mb`, its batch is made smaller, and the row says so. Writes silicon.json and silicon.md; the same command
resumes; rows in `--again` (operators or digests) are repeated.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ascendc_published import tensor_bytes
from scipy import stats
from silicon_records import (
    NOT_COMPILED,
    RIGHT,
    STOPPED,
    TOO_LARGE,
    UNDECIDED,
    WRONG,
    SiliconRecord,
    read_records,
    sample_records,
    shrink_reference,
)

from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.numeric_contract import ToleranceRule
from evokernel.core.records import Candidate, Job, Outcome
from evokernel.suites.loader import load_tasks
from evokernel.verifier import tolerance, verify

RECORDED_RULE = ToleranceRule(atol=1e-4, rtol=1e-4, atol_unit=1.0)
"""The tolerance of the evaluations on silicon."""
FIXED_SIZE_ERROR = re.compile(r"E-BIND-CHECK|E-TILING-FAIL")
"""The errors of a kernel that accepts only one shape."""
WRONG_VALUES = ("mismatch", "nan", "unwritten", "nondeterministic")
MACHINE_LIMITS = ("timeout", "build_timeout", "memory", "killed")
"""Failures that say nothing about the kernel: the simulator is slower than silicon."""
EARLY_REASONS = ("unsupported", "symbol", "forbidden", "no_code")
"""Reasons of a refusal before compilation."""
SILICON_VERDICTS = (NOT_COMPILED, STOPPED, WRONG, RIGHT)
SIMULATOR_VERDICTS = (*SILICON_VERDICTS, UNDECIDED)


def verify_record(record: SiliconRecord, checkout: Path, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the row of a record: both verdicts with their reasons."""
    started = time.monotonic()
    row: dict[str, Any] = {"operator": record.operator, "path": record.path, "digest": record.digest}
    row |= {"silicon": record.verdict, "silicon_reason": record.reason, "change": "", "reason": ""}
    try:
        row |= run_on_simulator(record, checkout, args, folder)
    except (UserError, InfraError, CandidateError, MemoryError) as error:
        row |= {"simulator": UNDECIDED, "detail": f"{type(error).__name__}: {error}"}
    return row | {"seconds": round(time.monotonic() - started, 1)}


def run_on_simulator(record: SiliconRecord, checkout: Path, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Verify a kernel by the reference of its record, at a batch that fits."""
    sources = sorted(checkout.glob(f"vendor/mkb/reference/*/{record.operator}.py"))
    if not sources:
        return {"simulator": UNDECIDED, "detail": "the checkout has no reference of this operator"}
    reference, change = shrink_reference(sources[0].read_text(), args.max_mb * 1e6, tensor_bytes)
    if change == TOO_LARGE:
        return {"simulator": UNDECIDED, "detail": change}
    (folder / sources[0].name).write_text(reference)
    task = load_tasks(str(folder / sources[0].name))[0]
    text = (checkout / record.path).read_text(errors="replace")
    candidate = Candidate(backend="ascendc", files={"kernel.txt": text})
    settings = {"level": "hardware", "toolchain": "simulator", "run_s": args.run_s, "build_timeout_s": args.timeout_s}
    job = Job(
        backend="ascendc",
        settings=settings,
        task=task,
        candidate=candidate,
        timeout_s=args.timeout_s,
        protocol="paper",
        ignore_cache=True,
    )
    outcome = verify(job)
    return classify_outcome(outcome, change) | {"version": outcome.versions.get("simulator", "")}


def classify_outcome(outcome: Outcome, change: str) -> dict[str, Any]:
    """Return the simulator's verdict, its reason, and how the task was changed."""
    checked = any(gate.gate == "check" and gate.passed for gate in outcome.gates)
    partial_note = next((note for note in outcome.skipped_checks if "blocks ran" in note), "")
    change = "; ".join(filter(None, [change, partial_note]))
    if checked:
        return {"simulator": RIGHT, "detail": "", "change": change}
    failure = outcome.failure
    assert failure is not None
    row = {"reason": failure.reason, "detail": failure.detail, "change": change}
    if failure.reason in MACHINE_LIMITS:
        return row | {"simulator": UNDECIDED}
    if change and FIXED_SIZE_ERROR.search(failure.detail):
        return row | {"simulator": UNDECIDED, "detail": f"written for one size: {failure.detail}"}
    if failure.gate in ("screen", "build"):
        return row | {"simulator": NOT_COMPILED}
    return row | {"simulator": WRONG if failure.reason in WRONG_VALUES else STOPPED}


def count_refused(rows: Sequence[dict[str, Any]]) -> int:
    """Count the kernels that the simulator refuses or cannot compile."""
    return sum(row["simulator"] == NOT_COMPILED for row in rows)


def is_agreeing(row: dict[str, Any]) -> bool:
    """Whether silicon and simulator agree that a kernel is right, or that it is not."""
    return bool((row["silicon"] == RIGHT) == (row["simulator"] == RIGHT))


def format_share(count: int, total: int) -> str:
    """Format a share with its exact 95 % interval."""
    if not total:
        return "not reported"
    interval = stats.binomtest(count, total).proportion_ci(0.95, method="exact")
    return f"{count} of {total} ({100 * count / total:.1f} %, 95 % interval {100 * interval.low:.1f} to {100 * interval.high:.1f} %)"


def format_report(rows: Sequence[dict[str, Any]]) -> str:
    """Format the matrix, the agreement and the list of disagreements."""
    counts = Counter((row["silicon"], row["simulator"]) for row in rows)
    decided = [row for row in rows if row["simulator"] != UNDECIDED]
    operators = {row["operator"] for row in decided}
    lines = [f"| silicon | {' | '.join(SIMULATOR_VERDICTS)} |", f"|---|{'---|' * len(SIMULATOR_VERDICTS)}"]
    lines += [f"| {one} | {' | '.join(str(counts[one, other]) for other in SIMULATOR_VERDICTS)} |" for one in SILICON_VERDICTS]
    lines += ["", f"{len(decided)} kernels of {len(operators)} operators are decided, {sum(bool(r['change']) for r in decided)} of them"]
    versions = sorted({row.get("version", "") for row in decided})
    lines[-1] += f" at a smaller batch or in part. Versions of the simulator: {', '.join(filter(None, versions)) or 'not reported'}."
    lines.append(f"- right or not right: {format_share(sum(map(is_agreeing, decided)), len(decided))} agree")
    for verdict in SILICON_VERDICTS:
        part = [row for row in decided if row["silicon"] == verdict]
        lines.append(f"- {verdict} on silicon: {format_share(sum(map(is_agreeing, part)), len(part))} agree")
    runnable = [row for row in decided if row["silicon"] != NOT_COMPILED]
    lines.append(f"- only kernels that compile on silicon: {format_share(sum(map(is_agreeing, runnable)), len(runnable))} agree")
    same = sum(row["silicon"] == row["simulator"] for row in decided)
    lines.append(f"- the same one of the four verdicts: {format_share(same, len(decided))}")
    early = Counter(row["reason"] for row in decided if row["simulator"] == NOT_COMPILED and row["reason"] in EARLY_REASONS)
    lines.append(
        f"- of {count_refused(decided)} kernels that the simulator refuses, {sum(early.values())} are refused before they are compiled, for"
        f" their names, their model or their includes ({', '.join(f'{count} {reason}' for reason, count in early.most_common()) or 'none'})"
    )
    lines += ["", "| kernel | silicon | its reason | simulator | its reason | change |", "|---|---|---|---|---|---|"]
    lines += [format_row(row) for row in decided if not is_agreeing(row)]
    lines += ["", "Undecided:", ""]
    lines += [format_row(row) for row in rows if row["simulator"] == UNDECIDED]
    return "\n".join(lines) + "\n"


def format_row(row: dict[str, Any]) -> str:
    """Format one kernel with both reasons."""
    detail = (row["detail"] or "").strip().splitlines()[0][:160] if row["detail"] else ""
    cells = [f"{row['operator']} {row['digest']}", row["silicon"], row["silicon_reason"][:120]]
    cells += [row["simulator"], f"{row['reason']} {detail}".strip(), row["change"]]
    return "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--operators", default="", help="only these, separated by commas")
    parser.add_argument("--digests", default="", help="only these kernels, separated by commas; 'none' prints the report of the known rows")
    parser.add_argument("--per-operator", type=int, default=8, help="kernels with one verdict for each operator")
    parser.add_argument("--builds-per-operator", type=int, default=1, help="kernels that do not compile, for each operator")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", default="", help="operators, digests, verdicts or versions whose rows are repeated; 'disagreements'")
    parser.add_argument("--max-mb", type=float, default=32)
    parser.add_argument("--timeout-s", type=float, default=120)
    parser.add_argument(
        "--run-s", type=float, default=10, help="seconds for one launch; the simulator runs only some blocks of longer ones"
    )
    parser.add_argument("--out", type=Path, default=Path("silicon"))
    args = parser.parse_args()
    tolerance.PAPER_RULE = RECORDED_RULE  # the verifier's own rule for published benchmarks is wider
    args.out.mkdir(parents=True, exist_ok=True)
    json_path = args.out / "silicon.json"
    rows: list[dict[str, Any]] = json.loads(json_path.read_text()) if json_path.exists() else []
    again = set(filter(None, args.again.split(",")))
    rows = [
        r
        for r in rows
        if not (
            {r["operator"], r["digest"], r["silicon"], r.get("version", "")} & again or ("disagreements" in again and not is_agreeing(r))
        )
    ]
    known = {row["digest"] for row in rows}
    records = [r for r in read_records(args.checkout) if not args.operators or r.operator in args.operators.split(",")]
    records = [record for record in records if list(args.checkout.glob(f"vendor/mkb/reference/*/{record.operator}.py"))]
    sample = sample_records(records, args.per_operator, args.builds_per_operator, args.seed)
    sample = sample[: args.limit or len(sample)]
    with tempfile.TemporaryDirectory() as folder:
        for record in sample:
            if record.digest in known or (args.digests and record.digest not in args.digests.split(",")):
                continue
            row = verify_record(record, args.checkout, args, Path(folder))
            rows.append(row)
            json_path.write_text(json.dumps(rows, indent=1))
            print(
                f"{row['seconds']:6} s  {record.operator}: {record.verdict} / {row['simulator']} {row['reason']}",
                file=sys.stderr,
                flush=True,
            )
    drawn = {record.digest for record in sample}
    report = format_report([row for row in rows if row["digest"] in drawn])
    (args.out / "silicon.md").write_text(report)
    print(report)


if __name__ == "__main__":
    main()
