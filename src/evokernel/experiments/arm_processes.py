"""Runs the arms of an experiment side by side, each in a process of its own with a share of the cores.

The packs are learned first, so that no two arms learn the same one. A run's folder belongs to one process. The report is written
afterwards, from the folders.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from evokernel.core.cores import usable_cores
from evokernel.core.errors import EvoKernelError, UserError
from evokernel.experiments import runner
from evokernel.experiments.arm_runs import Listener
from evokernel.experiments.run_session import TimeLimitReached
from evokernel.experiments.spec import ExperimentSpec, with_arms

COMMAND = (sys.executable, "-P", "-m", "evokernel.experiments.arm_processes")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
STOPPED_EXIT = 3
"""Exit code of an arm's process that the time limit ended."""
POLL_S, REPORT_S = 0.2, 10.0


class ArmProcess(NamedTuple):
    """A running arm."""

    arm: str
    process: subprocess.Popen[bytes]
    log: Path


def run_side_by_side(
    spec: ExperimentSpec,
    tasks: runner.TasksByGroup,
    folder: Path,
    processes: int,
    report: Callable[[str], None] = lambda line: None,
    time_limit_s: float | None = None,
    listen: Listener = lambda run, record: None,
) -> None:
    """Learn the packs, then complete the runs of all arms and seeds, `processes` arms at a time. `listen` follows the packs.

    Raises TimeLimitReached when the time is over, and UserError with the last line of its log if an arm fails.
    """
    start_s = time.monotonic()
    shared = share_cores(spec, processes)
    runner.learn_packs(shared, tasks, folder, listen, time_limit_s)
    groups = {group: ",".join(runner.task_patterns(tasks, [group])) for group in tasks}
    waiting = deque(shared.arms)
    running: list[ArmProcess] = []
    codes: dict[str, int] = {}
    logs: dict[str, Path] = {}
    reported_s = time.monotonic()
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                arm = waiting.popleft()
                remaining_s = time_limit_s and max(0.0, time_limit_s - (time.monotonic() - start_s))
                job = with_arms(shared, [arm])[0].model_copy(update={"groups": groups})
                running.append(start_arm(job, folder, arm.name, processes, remaining_s))
            time.sleep(POLL_S)
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                codes[one.arm], logs[one.arm] = one.process.returncode, one.log
            if time.monotonic() - reported_s > REPORT_S:
                reported_s = time.monotonic()
                report(f"{len(codes)} of {len(shared.arms)} arms finished, {count_attempts(folder, spec)} attempts")
    finally:
        for one in running:
            one.process.terminate()
    raise_for_codes(codes, logs)


def raise_for_codes(codes: Mapping[str, int], logs: Mapping[str, Path]) -> None:
    """Raise for the first arm that failed, or TimeLimitReached if the time limit ended one."""
    for arm, code in codes.items():
        if code not in (0, STOPPED_EXIT):
            lines = logs[arm].read_text(errors="replace").split("\n")
            last_line = next((line for line in reversed(lines) if line.strip()), f"its process ended with exit code {code}")
            raise UserError(f"arm '{arm}': {last_line.removeprefix('error: ')} (log: {logs[arm]}). The other arms are stored.")
    if STOPPED_EXIT in codes.values():
        raise TimeLimitReached


def share_cores(spec: ExperimentSpec, processes: int) -> ExperimentSpec:
    """Return the experiment with as many workers for each arm as its share of the cores, unless its settings say how many."""
    workers = max(1, usable_cores() // processes)
    return spec.model_copy(update={"settings": {"workers": workers, **spec.settings}})


def start_arm(job: ExperimentSpec, folder: Path, arm: str, processes: int, time_limit_s: float | None) -> ArmProcess:
    """Start the process of one arm. Its log is in the folder of the experiment."""
    log = folder / "logs" / f"{arm}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    threads = str(max(1, usable_cores() // processes))
    environment = {**dict.fromkeys(THREAD_VARIABLES, threads), **os.environ}
    with log.open("wb") as output:
        process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, env=environment)
    assert process.stdin
    with process.stdin as pipe:
        pipe.write(json.dumps({"spec": job.model_dump(mode="json"), "folder": str(folder), "time_limit_s": time_limit_s}).encode())
    return ArmProcess(arm, process, log)


def count_attempts(folder: Path, spec: ExperimentSpec) -> int:
    """Return how many attempts the journals of all arms and seeds contain."""
    paths = [folder / f"{arm.name}-{seed}" / "attempts.jsonl" for arm in spec.arms for seed in range(spec.seeds)]
    return sum(path.read_bytes().count(b"\n") for path in paths if path.exists())


def main() -> int:
    """Complete the runs of one arm, which standard input describes."""
    job = json.load(sys.stdin)
    spec = ExperimentSpec.model_validate(job["spec"])
    try:
        runner.run_experiment(spec, runner.select_operators(spec), Path(job["folder"]), time_limit_s=job["time_limit_s"])
    except TimeLimitReached:
        return STOPPED_EXIT
    except EvoKernelError as error:
        sys.exit(f"error: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
