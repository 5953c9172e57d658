"""Published Ascend C kernels on the twin: how many compile unchanged, how many are right, and what stops the others.

    python benchmarks/ascendc_published.py KERNELS REFERENCES [MORE ...] [--names relu,softmax] [--level hardware] [--out FOLDER]

KERNELS is a folder of six-part texts (`<name>.txt`), REFERENCES one of KernelBench files (`**/<name>.py`) with the arguments the kernels
take; both are read from wherever their checkout is. A kernel that is not right by the first folder's reference is tried by the next one's:
some that were rewritten to take weights as arguments compute something else. Where the tensors of a reference are larger than `--most-mb`,
its batch is made smaller; a kernel that was written for the full batch alone says so, and is listed as too large. Writes published.md and
published.json, and goes on with what is there when it is called again.
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
from evokernel.reference.measure import imagine
from evokernel.tasks.loader import load
from evokernel.verify import verify
from evokernel.verify.shared_buffers import blank

BATCH = re.compile(r"^(batch_size|batch|N|B)(\s*=\s*)(\d+)", re.MULTILINE)
LITERAL = re.compile(r"(\bx\s*=\s*)(torch\.rand\w*\(\s*)(\d+)")
"""The batch of a reference that gives it no name."""
CHECKED = re.compile(r"\bTORCH_CHECK\s*\((?:[^;\"]|\"[^\"]*\")*?\b(?:size|sizes|numel)\s*\((?:[^;\"]|\"[^\"]*\")*;")
"""What a bind asks of a tensor's sizes."""
FIXED = re.compile(r"E-BIND-CHECK|E-TILING-FAIL")
"""How a kernel that takes one shape only refuses another."""
LARGEST_BYTES = 4.5e9
"""For a batch of one, where no smaller one is left: judging takes up to four times as much."""


def fitted(source: Path, most_bytes: float, folder: Path) -> tuple[Task | None, str]:
    """The reference as a task whose tensors fit, and what was changed for that."""
    text = source.read_text()
    pattern = BATCH if BATCH.search(text) else LITERAL
    found = pattern.search(text)
    whole = int(found[3]) if found else 1
    factors = [2**power for power in range(16) if 2**power <= whole]
    for factor in factors:
        batch = whole // factor
        made = pattern.sub(rf"\g<1>\g<2>{batch}", text, count=1) if found and factor > 1 else text
        needed = bytes_of(made)
        if needed > (LARGEST_BYTES if batch == 1 else most_bytes):
            continue
        file = folder / f"{source.stem}.py"
        file.write_text(made)
        task = load(str(file))[0]
        return task, f"{found[1]} {found[3]} -> {batch}" if found and factor > 1 else ""
    return None, "its tensors do not fit, whatever the batch"


def bytes_of(source: str) -> float:
    """Of inputs and outputs, without making any; of the inputs alone where outputs depend on values."""
    if imagined := imagine(source, "reference", {}):
        told = imagined.signature
        return float(sum(blank(tensor).data.nbytes for tensor in (*told.inputs, *told.params, *told.outputs)))
    import torch

    scope: dict[str, Any] = {}
    exec(source, scope)  # a reference is trusted, here as everywhere
    with torch.device("meta"):
        given = scope["get_inputs"]()
    return float(sum(one.numel() * one.element_size() for one in given if isinstance(one, torch.Tensor)))


def by_any(name: str, kernel: Path, sources: list[Path], given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One kernel's row by the first reference it is right by; else by the first one that there is."""
    rows: list[dict[str, Any]] = []
    for source in sources:
        try:
            rows.append(judged(name, kernel, source, given, folder))
        except (UserError, InfraError, CandidateError, MemoryError) as error:
            rows.append({"name": name, "compiled": None, "feasible": False, "reason": type(error).__name__, "detail": str(error)})
        if rows[-1].get("right"):
            return rows[-1] | {"by": len(rows)}
    return rows[0]


def judged(name: str, kernel: Path, source: Path, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One kernel's row: at a batch that is quick to compute, or at the full one where it takes no other. Where that does not fit, the
    binding's questions about sizes are left out at last, and the row says so: the kernel itself may well take others."""
    text = kernel.read_text()
    row = tried(name, text, source, given, folder, given.most_mb * 1e6)
    if not (row["changed"] and row["reason"] == "too_large"):
        return row
    whole = tried(name, text, source, given, folder, LARGEST_BYTES)
    if whole["reason"] != "too_large":
        return whole
    relaxed = tried(name, CHECKED.sub("", text), source, given, folder, given.most_mb * 1e6)
    return relaxed | {"relaxed": True} if relaxed.get("right") else row


def tried(name: str, kernel: str, source: Path, given: argparse.Namespace, folder: Path, most_bytes: float) -> dict[str, Any]:
    """One kernel at the largest batch whose tensors take no more than this."""
    task, changed = fitted(source, most_bytes, folder)
    row: dict[str, Any] = {"name": name, "changed": changed, "compiled": None, "feasible": False, "reason": "too_large", "detail": changed}
    if task is None:
        return row | {"compiled": compiles(kernel, load(str(source))[0])}
    settings: dict[str, Any] = {"level": given.level, "run_s": given.run_s}
    candidate = Candidate(backend="ascendc", files={"kernel.txt": kernel})
    job = Job(backend="ascendc", settings=settings, task=task, candidate=candidate, timeout_s=given.timeout_s, protocol="paper")
    outcome = verify(job)
    failure = outcome.failure
    row |= {
        "compiled": outcome.is_compiled,
        "feasible": outcome.feasible,
        "reason": failure.reason if failure else "",
        "us": outcome.latency_us,
    }
    row["detail"] = failure.detail if failure else ""
    checked = any(gate.gate == "check" and gate.passed for gate in outcome.gates)
    row["right"] = checked
    row["without"] = list(outcome.skipped_checks)
    if changed and failure and FIXED.search(failure.detail):
        row["reason"] = "too_large"
    return row


def compiles(kernel: str, task: Task) -> bool:
    """Whether a kernel is built, where it cannot be run."""
    backend = make_plugin("backend", "ascendc")
    with tempfile.TemporaryDirectory() as workdir:
        try:
            backend.build(task, Candidate(backend="ascendc", files={"kernel.txt": kernel}), Path(workdir))
        except CandidateError:
            return False
    return True


def table(rows: list[dict[str, Any]]) -> str:
    """All of them, in words."""
    right = sum(bool(row.get("right")) for row in rows)
    part = sum(bool(row.get("right")) and any("blocks were run" in line for line in row.get("without", ())) for row in rows)
    lines = [f"{len(rows)} kernels: {sum(bool(row['compiled']) for row in rows)} compile unchanged, {right} run to a right result"]
    relaxed = sum(bool(row.get("relaxed")) for row in rows)
    lines = [f"{lines[0]}, {part} of these in part: some of their blocks, at a size that would take minutes;"]
    lines += [f"{relaxed} at a smaller size than their binding asks for, whose question was left out.", ""]
    lines += [
        f"- {count} {reason or 'right'}" for reason, count in Counter("" if r.get("right") else r["reason"] for r in rows).most_common()
    ]
    lines += ["", "| kernel | stopped by | where |", "|---|---|---|"]
    lines += [
        f"| {r['name']} | {r['reason']} | {(r['detail'] or '').splitlines()[0][:160] if r['detail'] else ''} |"
        for r in rows
        if not r.get("right")
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("references", type=Path, nargs="+")
    parser.add_argument("--names", default="")
    parser.add_argument("--level", default="strict")
    parser.add_argument("--most-mb", type=float, default=64)
    parser.add_argument("--timeout-s", type=float, default=120)
    parser.add_argument("--run-s", type=float, default=20, help="for one launch; beyond that only some of its blocks are run")
    parser.add_argument("--out", type=Path, default=Path("published"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    kept = given.out / "published.json"
    rows: list[dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else []
    references: defaultdict[str, list[Path]] = defaultdict(list)
    for path in (path for folder in given.references for path in folder.rglob("*.py")):
        references[path.stem].append(path)
    kernels = {path.stem: path for path in sorted(given.kernels.glob("*.txt")) if path.stem in references}
    wanted = [name for name in kernels if not given.names or name in given.names.split(",")]
    with tempfile.TemporaryDirectory() as made:
        for name in wanted:
            if not any(row["name"] == name for row in rows):
                rows.append(by_any(name, kernels[name], references[name], given, Path(made)))
                kept.write_text(json.dumps(rows, indent=1))
            row = next(row for row in rows if row["name"] == name)
            print(f"{name}: {'right' if row.get('right') else row['reason']}", file=sys.stderr, flush=True)
    (given.out / "published.md").write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
