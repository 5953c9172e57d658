"""`evokernel verify`: verifies kernels for tasks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evokernel.cli.heartbeat import Heartbeat, announce_wait
from evokernel.cli.output import (
    TERMS_EPILOG,
    format_pairs,
    format_table,
    json_option,
    print_json,
    print_text,
    size_option,
    wrap_text,
)
from evokernel.core.errors import UserError
from evokernel.core.labels import format_count

if TYPE_CHECKING:
    from evokernel.app.verification import VerificationRequest
    from evokernel.core.config import RunConfig
    from evokernel.core.records import Candidate, GateResult, Job, Outcome

    VerifiedRequest = tuple[VerificationRequest, Candidate, Outcome]


@click.command(epilog=TERMS_EPILOG)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--task", "spec", required=True, metavar="SPEC", help="Task: suite/name or a .py file; a suite for files named after tasks.")
@click.option("--backend", metavar="NAME", help="Kernel language. [detected from FILE]")
@size_option
@click.option("--baseline", "baselines", multiple=True, type=click.Choice(["compile"]), help="Also time torch.compile.")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a setting, such as backend.threads=2 or timeout_s=20; may be repeated.",
)
@click.option("--tune", is_flag=True, help="If the kernel is correct, try other values of its tunables (docs/tunables.md).")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="With --tune: write the kernel with its best values.")
@click.option("--remember", is_flag=True, help="Keep kernels and outcomes in the memory bank, as a run keeps its attempts.")
@click.option("--memory", metavar="PATH|URL", help="With --remember: the memory bank. [evokernel-memory.db]")
@click.option("--require-sandbox", is_flag=True, help="Refuse to run if a layer of the sandbox is missing; 'evokernel doctor' lists them.")
@click.option("--profile", "shows_profile", is_flag=True, help="Print what the kernel would gain without each cause of its latency.")
@json_option
def command(
    files: tuple[Path, ...],
    spec: str,
    backend: str | None,
    size: str | None,
    baselines: tuple[str, ...],
    sets: tuple[str, ...],
    tune: bool,
    out: Path | None,
    remember: bool,
    memory: str | None,
    require_sandbox: bool,
    shows_profile: bool,
    as_json: bool,
) -> int:
    """Verify kernels through all gates. FILE is a kernel, a folder of kernels, the folder of one kernel, or - for stdin.

    \b
    Examples:
      evokernel verify kernel.py --task starter/softmax --set backend.chip=v6e
      evokernel verify kernel.cpp --task my_op.py --baseline compile --json
      evokernel verify a.cpp b.cpp --task starter/matmul --set backend.threads=2
      evokernel verify kernels/ --task starter --remember
      cat kernel.cpp | evokernel verify - --backend cpp --task starter/softmax
      evokernel verify kernel.asc --task starter/softmax --profile
      evokernel verify kernel.cpp --task starter/softmax --tune --out tuned.cpp

    If SPEC names several tasks, each kernel is verified for the task it is named after. --json prints an object for
    one kernel, a list for several. Exit codes: 0 all passed every gate, 1 one failed a gate, 2 error to fix,
    3 infrastructure failure.
    """
    from evokernel.app.kernel_files import write_kernel
    from evokernel.app.verification import plan_verifications
    from evokernel.sandbox import layers

    if out and not tune:
        raise UserError("--out writes the kernel with its best values: add --tune")
    if memory and not remember:
        raise UserError("--memory names the bank that keeps the outcomes: add --remember")
    with announce_wait("loading the task"):
        requests = plan_verifications(files, spec, backend, partial(make_settings, sets, size, memory, require_sandbox))
    if out and len(requests) > 1:
        raise UserError(f"--out writes one kernel, but {len(requests)} are named. Tune one at a time.")
    if requests[0].config.require_sandbox:
        layers.require_all_layers()
    results: list[VerifiedRequest] = []
    for request in requests:
        results.append(verify_request(request, baselines, tune, as_json, shows_profile, shows_name=len(requests) > 1))
        if out and results[-1][2].feasible:
            print_text(f"wrote {write_kernel(results[-1][1], request.path, out)}", err=True)
        warn_missing_baselines(results[-1][2], baselines)
    return summarize_results(results, remember, as_json)


def make_settings(sets: Sequence[str], size: str | None, memory: str | None, require_sandbox: bool, backend: str) -> RunConfig:
    """The settings of the verifications for one backend."""
    from evokernel.core.bank_uri import resolve_path
    from evokernel.core.config import resolve_config

    bank = resolve_path(memory) if memory else None
    flags = {"workers": 1, "size": size, "memory": bank, "require_sandbox": require_sandbox or None}
    return resolve_config(None, sets, base={"backend": {"name": backend}}, **flags)


def verify_request(
    request: VerificationRequest, baselines: Sequence[str], tune: bool, as_json: bool, shows_profile: bool, shows_name: bool
) -> VerifiedRequest:
    """Verify one kernel and print what came of it."""
    kernel, outcome = verify_and_show(request, ("eager", *baselines), tune, as_json, shows_name)
    if not as_json:
        print_text(format_result(request, outcome) + (f"\n\n{format_opportunities(kernel, outcome)}" if shows_profile else ""))
    return request, kernel, outcome


def summarize_results(results: Sequence[VerifiedRequest], remember: bool, as_json: bool) -> int:
    """Keep the outcomes if the user wants that, print the results of all kernels, and return the exit code."""
    from evokernel.app.verification import remember_outcomes
    from evokernel.reports.outcome_report import outcome_record

    if remember:
        count = remember_outcomes(results)
        print_text(f"kept {format_count(count, 'item')} in the memory bank {results[0][0].config.memory}", err=True)
    passed = sum(outcome.feasible for _, _, outcome in results)
    if as_json:
        records = [outcome_record(request.task, kernel, outcome) | {"file": str(request.path)} for request, kernel, outcome in results]
        print_json(records[0] if len(records) == 1 else records)
    elif len(results) > 1:
        print_text(f"{passed} of {format_count(len(results), 'kernel')} passed every gate")
    return 0 if passed == len(results) else 1


def verify_and_show(
    request: VerificationRequest, baselines: Sequence[str], tune: bool, as_json: bool, shows_name: bool
) -> tuple[Candidate, Outcome]:
    """Verify one kernel and print each gate as it passes, with a line on stderr whenever a gate takes long."""
    from evokernel.app.verification import enable_tuning, verify_candidate, verify_kernel
    from evokernel.reports.formatting import explain_tags

    task, kernel = request.task, request.kernel
    title = [f"{request.path}: {task.id}" if shows_name else task.id, *(f"  note: {text}" for text in explain_tags(task.tags))]
    display = GateDisplay(kernel, request.path.name, title, as_json)
    with display.heartbeat:
        if tune:
            kernel, outcome = verify_kernel(enable_tuning(request.config, kernel), task, kernel, baselines, on_gate=display.show_gate)
        else:
            outcome = verify_candidate(request.config, task, kernel, baselines, on_gate=display.show_gate)
        display.show_rest(outcome)
    return kernel, outcome


class GateDisplay:
    """Prints the gates of one kernel as they pass; while one takes long, a line says which one and for how long."""

    def __init__(self, kernel: Candidate, file_name: str, title: Sequence[str], as_json: bool) -> None:
        self.kernel, self.file_name, self.title, self.as_json = kernel, file_name, title, as_json
        self.started_at = self.gate_started_at = time.monotonic()
        self.gate = ""
        self.printed_gates: list[str] = []
        self.heartbeat = Heartbeat(self.describe)

    def describe(self) -> str:
        """What the verifier is doing: `  … check 12 s (18 s in all)`."""
        now = time.monotonic()
        if not self.gate:
            return f"  … starting, {now - self.started_at:.0f} s"
        return f"  … {self.gate} {now - self.gate_started_at:.0f} s ({now - self.started_at:.0f} s in all)"

    def show_gate(self, job: Job, gate: str, result: GateResult | None) -> None:
        """Print a gate when it ends; note when it starts. The gates of tuning trials are not printed."""
        is_trial = job.purpose != "verify" or job.candidate.id != self.kernel.id
        self.gate = f"tuning: {gate}" if is_trial else gate
        if result is None:
            self.gate_started_at = time.monotonic()
        elif not is_trial:
            self.print_gate(result)

    def show_rest(self, outcome: Outcome) -> None:
        """Print the gates that were not reported while they ran, as of a cached outcome or on another machine."""
        for gate in outcome.gates:
            if gate.gate not in self.printed_gates:
                self.print_gate(gate)

    def print_gate(self, gate: GateResult) -> None:
        """Print one gate; lines of a kernel's parts are also named as lines of the user's file."""
        from evokernel.app.kernel_files import name_file_lines

        self.printed_gates.append(gate.gate)
        if not self.as_json:
            detail = name_file_lines(gate.detail, self.kernel, self.file_name)
            title = self.title if len(self.printed_gates) == 1 else ()  # not before a gate ends: the settings may be refused until then
            print_text("\n".join([*title, *format_gate(gate.model_copy(update={"detail": detail}))]))
            self.heartbeat.touch()


def warn_missing_baselines(outcome: Outcome, baselines: Sequence[str]) -> None:
    """Print a note if a baseline that the user asked for is not available."""
    from evokernel.reports import formatting

    if outcome.feasible and (missing_baselines := [name for name in baselines if name not in outcome.baseline_us]):
        print_text(
            f"note: no {formatting.baseline_label(missing_baselines)} baseline is available for "
            f"{formatting.clock_label([outcome.clock])} timings",
            err=True,
        )


def format_gate(gate: GateResult) -> list[str]:
    """The lines of one gate."""
    mark = "✓" if gate.passed else "✗"
    head = f"  {mark} {gate.gate.ljust(6)}  {gate.seconds:6.2f} s" + ("" if gate.passed else f"  {gate.reason}")
    return [head, *(f"      {line}".rstrip() for line in gate.detail.splitlines())]


def format_result(request: VerificationRequest, outcome: Outcome) -> str:
    """What follows the gates that a kernel passed: gates not reached, measurements, the limit that ended it, and the conclusion."""
    from evokernel.reports.outcome_report import list_unreached_gates, measurement_rows

    return "\n".join(
        [
            *(f"  – {name.ljust(6)}  not reached" for name in list_unreached_gates(outcome)),
            "",
            format_pairs([(f"  {label}", text) for label, text in measurement_rows(outcome)]),
            "",
            *explain_limit(request.config, outcome),
            "passed every gate" if outcome.feasible else "failed",
        ]
    )


def explain_limit(config: RunConfig, outcome: Outcome) -> list[str]:
    """Which limit ends a kernel that is too slow, and the setting that raises it; empty if the kernel did not fail for time."""
    reason = outcome.failure.reason if outcome.failure else ""
    if reason == "timeout":
        limit = f"the setting timeout_s is {config.timeout_s:g} s"
        return [f"If the kernel is right to be slow: {limit}. Raise it with --set timeout_s={2 * config.timeout_s:g}."]
    if reason == "build_timeout":
        return ["If the compiler is right to be slow: raise its limit with --set backend.build_timeout_s=N."]
    return []


def format_opportunities(kernel: Candidate, outcome: Outcome) -> str:
    """What the kernel would gain without each cause of its latency: the figures, below them the next move, then the source lines."""
    from evokernel.reports import formatting, opportunities

    if outcome.profile is None:
        return "profile: none, because the kernel was not timed or the backend explains no latency"
    table = opportunities.opportunity_table(outcome)
    if table is None:
        return "profile: no opportunity was found"
    *figures, moves = zip(*table.format_rows())
    headings = [column.name for column in table.columns[:-1]]
    text = format_table(headings, list(zip(*figures)), [column.is_right_aligned for column in table.columns]).splitlines()
    head, rows = text[: -len(moves)], text[-len(moves) :]
    lines = [table.title.lower(), *(f"  {line}" for line in head)]
    for row, move in zip(rows, moves):
        lines += [f"  {row}", wrap_text(move, "      ")]
    lines += ["", f"  {table.note}"]
    for name, source in opportunities.annotate_source(kernel.files, outcome).items():
        lines += ["", f"  {name}"]
        lines += [
            f"  {formatting.format_latency(line.gain_us):>9}  {line.number:4}  {line.text.strip()}"
            for line in source
            if line.gain_us is not None
        ]
    return "\n".join(lines)
