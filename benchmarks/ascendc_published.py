"""Runs published Ascend C kernels on the simulator: how many compile unchanged, how many are correct, and why the others fail.

    python benchmarks/ascendc_published.py KERNELS REFERENCES [MORE ...] [--names relu,softmax] [--level hardware] [--out FOLDER]

KERNELS is a folder of six-part texts (`<name>.txt`), REFERENCES a folder of KernelBench files (`**/<name>.py`) with the arguments of the
kernels. Both can be in any checkout. If a kernel is wrong by the reference of the first folder, the next folder's reference is used,
because some references that were rewritten to take weights as arguments compute something else. If the tensors of a reference are larger
than `--max-mb`, its batch is made smaller. A kernel that rejects any other than the full batch is listed as too large. Writes
published.md and published.json; the same command resumes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Job, Task
from evokernel.reference.measure import measure_shapes
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify
from evokernel.verifier.shared_buffers import make_blank_array

BATCH = re.compile(r"^(batch_size|batch|N|B)(\s*=\s*)(\d+)", re.MULTILINE)
LITERAL_BATCH = re.compile(r"(\bx\s*=\s*)(torch\.rand\w*\(\s*)(\d+)")
"""The batch of a reference that does not name it."""
SIZE_CHECK = re.compile(r"\bTORCH_CHECK\s*\((?:[^;\"]|\"[^\"]*\")*?\b(?:size|sizes|numel)\s*\((?:[^;\"]|\"[^\"]*\")*;")
"""A check of tensor sizes in a binding."""
FIXED_SIZE_ERROR = re.compile(r"E-BIND-CHECK|E-TILING-FAIL")
"""The errors of a kernel that accepts only one shape."""
LARGEST_BYTES = 4.5e9
"""The limit for a batch of one, the smallest possible; verification uses up to four times as much memory."""


def shrink_to_fit(source: Path, max_bytes: float, folder: Path) -> tuple[Task | None, str]:
    """Return the reference as a task whose tensors fit, and the change of the batch."""
    text = source.read_text()
    pattern = BATCH if BATCH.search(text) else LITERAL_BATCH
    match = pattern.search(text)
    full_batch = int(match[3]) if match else 1
    factors = [2**power for power in range(16) if 2**power <= full_batch]
    for factor in factors:
        batch = full_batch // factor
        shrunk_text = pattern.sub(rf"\g<1>\g<2>{batch}", text, count=1) if match and factor > 1 else text
        needed_bytes = tensor_bytes(shrunk_text)
        if needed_bytes > (LARGEST_BYTES if batch == 1 else max_bytes):
            continue
        file = folder / f"{source.stem}.py"
        file.write_text(shrunk_text)
        task = load_tasks(str(file))[0]
        return task, f"{match[1]} {match[3]} -> {batch}" if match and factor > 1 else ""
    return None, "its tensors do not fit at any batch"


def tensor_bytes(source: str) -> float:
    """Return the bytes of inputs and outputs without allocating them; of the inputs only, if the outputs depend on values."""
    if shapes := measure_shapes(source, "reference", {}):
        signature = shapes.signature
        return float(sum(make_blank_array(tensor).data.nbytes for tensor in (*signature.inputs, *signature.params, *signature.outputs)))
    import torch

    scope: dict[str, Any] = {}
    exec(source, scope)  # references are trusted
    with torch.device("meta"):
        inputs = scope["get_inputs"]()
    return float(sum(one.numel() * one.element_size() for one in inputs if isinstance(one, torch.Tensor)))


def verify_by_any_reference(name: str, kernel: Path, sources: list[Path], args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the row of a kernel by the first reference by which it is correct, else by the first reference."""
    rows: list[dict[str, Any]] = []
    for source in sources:
        try:
            rows.append(verify_by_reference(name, kernel, source, args, folder))
        except (UserError, InfraError, CandidateError, MemoryError) as error:
            rows.append({"name": name, "compiled": None, "feasible": False, "reason": type(error).__name__, "detail": str(error)})
        if rows[-1].get("correct"):
            return rows[-1] | {"by": len(rows)}
    return rows[0]


def verify_by_reference(name: str, kernel: Path, source: Path, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the row of a kernel at a small batch, or at the full batch if it accepts no other.

    If the full batch does not fit, the size checks of the binding are removed, because the kernel itself may accept other sizes.
    The row then has the key `relaxed`.
    """
    text = kernel.read_text()
    row = verify_at_size(name, text, source, args, folder, args.max_mb * 1e6)
    if not (row["changed"] and row["reason"] == "too_large"):
        return row
    full_row = verify_at_size(name, text, source, args, folder, LARGEST_BYTES)
    if full_row["reason"] != "too_large":
        return full_row
    relaxed_row = verify_at_size(name, SIZE_CHECK.sub("", text), source, args, folder, args.max_mb * 1e6)
    return relaxed_row | {"relaxed": True} if relaxed_row.get("correct") else row


def verify_at_size(name: str, kernel: str, source: Path, args: argparse.Namespace, folder: Path, max_bytes: float) -> dict[str, Any]:
    """Verify a kernel at the largest batch whose tensors fit in `max_bytes`."""
    task, change = shrink_to_fit(source, max_bytes, folder)
    row: dict[str, Any] = {"name": name, "changed": change, "compiled": None, "feasible": False, "reason": "too_large", "detail": change}
    if task is None:
        return row | {"compiled": is_buildable(kernel, load_tasks(str(source))[0])}
    settings: dict[str, Any] = {"level": args.level, "run_s": args.run_s}
    candidate = Candidate(backend="ascendc", files={"kernel.txt": kernel})
    job = Job(backend="ascendc", settings=settings, task=task, candidate=candidate, timeout_s=args.timeout_s, protocol="paper")
    outcome = verify(job)
    failure = outcome.failure
    row |= {
        "compiled": outcome.is_compiled,
        "feasible": outcome.feasible,
        "reason": failure.reason if failure else "",
        "us": outcome.latency_us,
    }
    row["detail"] = failure.detail if failure else ""
    is_correct = any(gate.gate == "check" and gate.passed for gate in outcome.gates)
    row["correct"] = is_correct
    row["skipped_checks"] = list(outcome.skipped_checks)
    if change and failure and FIXED_SIZE_ERROR.search(failure.detail):
        row["reason"] = "too_large"
    return row


def is_buildable(kernel: str, task: Task) -> bool:
    """Whether a kernel that cannot run here can be built."""
    backend = make_plugin("backend", "ascendc")
    with tempfile.TemporaryDirectory() as workdir:
        try:
            backend.build(task, Candidate(backend="ascendc", files={"kernel.txt": kernel}), Path(workdir))
        except CandidateError:
            return False
    return True


def format_table(rows: list[dict[str, Any]]) -> str:
    """Format the summary and the table of kernels that are not correct."""
    correct_count = sum(bool(row.get("correct")) for row in rows)
    partial_count = sum(bool(row.get("correct")) and any("blocks ran" in line for line in row.get("skipped_checks", ())) for row in rows)
    lines = [
        f"{len(rows)} kernels: {sum(bool(row['compiled']) for row in rows)} compile unchanged, {correct_count} run to a correct result"
    ]
    relaxed_row = sum(bool(row.get("relaxed")) for row in rows)
    lines = [f"{lines[0]}, {partial_count} of these in part: only some of their blocks ran, because all would take minutes;"]
    lines += [f"{relaxed_row} at a smaller size than their binding requires, with its size checks removed.", ""]
    lines += [
        f"- {count} {reason or 'correct'}" for reason, count in Counter("" if r.get("correct") else r["reason"] for r in rows).most_common()
    ]
    lines += ["", "| kernel | reason | detail |", "|---|---|---|"]
    lines += [
        f"| {r['name']} | {r['reason']} | {(r['detail'] or '').splitlines()[0][:160] if r['detail'] else ''} |"
        for r in rows
        if not r.get("correct")
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("references", type=Path, nargs="+")
    parser.add_argument("--names", default="")
    parser.add_argument("--level", default="strict")
    parser.add_argument("--max-mb", type=float, default=64)
    parser.add_argument("--timeout-s", type=float, default=120)
    parser.add_argument(
        "--run-s", type=float, default=20, help="seconds for one launch; the simulator runs only some blocks of longer ones"
    )
    parser.add_argument("--out", type=Path, default=Path("published"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    json_path = args.out / "published.json"
    rows: list[dict[str, Any]] = json.loads(json_path.read_text()) if json_path.exists() else []
    references: defaultdict[str, list[Path]] = defaultdict(list)
    for path in (path for folder in args.references for path in folder.rglob("*.py")):
        references[path.stem].append(path)
    kernels = {path.stem: path for path in sorted(args.kernels.glob("*.txt")) if path.stem in references}
    names = [name for name in kernels if not args.names or name in args.names.split(",")]
    with tempfile.TemporaryDirectory() as shrunk_text:
        for name in names:
            if not any(row["name"] == name for row in rows):
                rows.append(verify_by_any_reference(name, kernels[name], references[name], args, Path(shrunk_text)))
                json_path.write_text(json.dumps(rows, indent=1))
            row = next(row for row in rows if row["name"] == name)
            print(f"{name}: {'correct' if row.get('correct') else row['reason']}", file=sys.stderr, flush=True)
    (args.out / "published.md").write_text(format_table(rows))
    print(format_table(rows))


if __name__ == "__main__":
    main()
