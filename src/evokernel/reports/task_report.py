"""What a task requires, as a JSON record and as rows of labels and values, for every caller that shows a task."""

from __future__ import annotations

from typing import Any

from evokernel.core.backend import Backend
from evokernel.core.memory_limits import estimate_memory_bytes
from evokernel.core.numeric_contract import numeric_contract
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Job, Task, Tensor
from evokernel.reports.formatting import explain_tags, format_bytes


def format_tensor(tensor: Tensor) -> str:
    """`x:float32[64,32]`."""
    return f"{tensor.name}:{tensor.dtype}[{','.join(map(str, tensor.shape))}]"


def task_record(task: Task, backend: str | None = None) -> dict[str, Any]:
    """What a kernel for a task must do, on one backend if it is named. The hidden size is left out."""
    plugin = make_plugin("backend", backend) if backend else None
    in_parts = plugin is not None and plugin.capabilities.can_check_full_sizes
    return {
        "task": task.id,
        "category": task.category,
        "family": task.family,
        "families": list(task.families),
        "level": task.level,
        "inputs": [format_tensor(one) for one in task.signature.inputs],
        "params": [format_tensor(one) for one in task.signature.params],
        "scalars": {one.name: one.value for one in task.signature.scalars},
        "outputs": [format_tensor(one) for one in task.signature.outputs],
        "sizes": {name: size for name, size in task.sizes.items() if name != "held_out"},
        "flops": task.work.flops,
        "bytes": task.work.bytes,
        "peak_bytes": task.work.peak_bytes,
        "verification_bytes": estimate_memory_bytes(task, in_parts=in_parts),
        "verification_cpu_s": estimate_cpu_s(task, plugin),
        "timeout_s": Job.model_fields["timeout_s"].default,
        **numeric_contract(task)._asdict(),
        "tags": list(task.tags),
        "backend": backend,
        "entry_point": plugin.entry_point(task) if plugin else None,
        "source": task.source,
    }


def estimate_cpu_s(task: Task, backend: Backend | None) -> dict[str, float] | None:
    """Return about how many CPU seconds a verification takes, and the range of nine in ten; None if that was not measured."""
    times = backend.capabilities.verification_time if backend else None
    if times is None or "laptop" not in task.sizes:
        return None
    estimate_s = times.estimate_s(task)
    return {"estimate": estimate_s, "least": estimate_s / times.spread, "most": estimate_s * times.spread}


def describe_cpu_s(record: dict[str, Any]) -> str:
    """Return ` and 20 s of CPU, in 9 of 10 cases 7 to 60 s`, or an empty text if there is no estimate."""
    if (times := record["verification_cpu_s"]) is None:
        return ""
    estimate, least, most = (f"{float(f'{times[name]:.2g}'):g}" for name in ("estimate", "least", "most"))
    return f" and {estimate} s of CPU, in 9 of 10 cases {least} to {most} s"


def task_rows(record: dict[str, Any]) -> list[tuple[str, str]]:
    """What a task requires, as labels and values: tensors, sizes, work, memory, tolerance."""
    smaller_sizes = "".join(
        f"; {label}: {', '.join(f'{name}={value}' for name, value in size.items())}"
        for label, size in record["sizes"].items()
        if label != "bench"
    )
    sums = (
        f"sums of up to {record['reduction_length']:.0f} terms in {record['accumulation']} or finer"
        if record["reduction_length"] > 1
        else "no sums"
    )
    return [
        (
            "task",
            f"{record['task']} (category {record['category']}, level {record['level']}, {record['dtype']}; "
            f"built from {', '.join(record['families'])})",
        ),
        ("inputs", " ".join(record["inputs"]) or "none"),
        ("parameters", " ".join(record["params"]) or "none"),
        ("scalars", " ".join(f"{name}={value:g}" for name, value in record["scalars"].items()) or "none"),
        ("outputs", " ".join(record["outputs"])),
        (
            "sizes",
            "timed as above" + ("" if "fixed-size" in record["tags"] else f"{smaller_sizes}; and a hidden size"),
        ),
        ("work", f"{record['flops'] / 1e6:.3g} Mflop, {format_bytes(record['bytes'])} moved at minimum"),
        (
            "verifying",
            f"takes about {format_bytes(record['verification_bytes'])} of memory{describe_cpu_s(record)} (estimate) and lets a kernel run "
            f"for {record['timeout_s']:g} s in all (timeout_s), however large the timed size is",
        ),
        ("tolerance", f"|got - expected| <= {record['atol']:g} * rms(expected) + {record['rtol']:g} * |expected|; integers exact"),
        ("numbers", f"{sums}{'; equal inputs must give equal bits' if record['deterministic'] else ''}"),
        *(("note", text) for text in explain_tags(record["tags"])),
    ]
