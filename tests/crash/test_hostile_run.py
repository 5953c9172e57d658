"""A run with mostly hostile candidates ends, verifies correctly, keeps its results, and leaves nothing behind."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hostile_environment import ACTS_FOR_ONE_WORKER, DiskMonitor, HostileEnvironment, Listener, collect_stray_processes, list_files

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Attempt
from evokernel.core.run import Run
from evokernel.engine.loop import Engine
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.sandbox.layers import describe_missing_layers

HERE = Path(__file__).parent
TASKS, TIMEOUT_S, RUN_S = 5, 2, 1500
MIXED = ("honest", "hostile", "hostile", "wrong", "hostile", "hostile")
TURNS = {10: MIXED, 20: MIXED, 40: ("honest", "wrong", "hostile")}
"""The order of candidates by the number of attempts per task: each hostile candidate appears once, in the shortest run half of them."""
DISK_BYTES = 300 << 20
RUN_FILES = {"run.toml", "sessions.jsonl", "tasks.jsonl", "attempts.jsonl", "finals.jsonl", "lock", "artifacts", "report.html", "plots"}
HONEST = ("2 * x", "x + x", "np.add(x, x)", "(4 * x) / 2", "np.ldexp(x, 1)", "np.multiply(2, x)")
WRONG = ("x", "0 * x", "2 * x + 1", "np.nan * x", "-2 * x", "2 * x.mean()")

pytestmark = [
    pytest.mark.slow(group="hostile run", one_in=3),
    pytest.mark.skipif(sys.platform != "linux", reason="inspects /proc"),
    pytest.mark.timeout(RUN_S + 100),
]


def make_python_candidate(expression: str) -> tuple[str, str]:
    """Return a Python candidate that only computes an expression."""
    head = "import numpy as np\ndef kernel(arguments):\n    x = arguments.inputs[0].data\n"
    return f"{head}    arguments.outputs[0].data[...] = {expression}\n", "py"


def load_kernels(kind: str, where: Path) -> list[tuple[str, str]]:
    """Return C++ candidates: screened as `cpp` does, or (.cc) not screened."""
    paths = sorted((HERE / "hostile_kernels").glob(f"{kind}_*"))
    return [(path.read_text().replace("@WHERE@", str(where)), path.suffix[1:]) for path in paths]


def load_acts() -> list[tuple[str, str]]:
    """Return the hostile Python candidates, except those for one persistent worker; some act when loaded, some when called."""
    paths = sorted(path for path in (HERE / "hostile_acts").glob("*.py") if path.stem not in ACTS_FOR_ONE_WORKER)
    return [(f"# at {('call', 'load')[number % 2]}: {path.stem}\n{path.read_text()}", "py") for number, path in enumerate(paths)]


def order_candidates(where: Path, budget: int, sample: str) -> Iterator[tuple[str, str, str]]:
    """Yield kind, text and suffix of every attempt."""
    honest = cycle([*load_kernels("honest", where), *(make_python_candidate(expression) for expression in 3 * HONEST)])
    wrong = cycle([*load_kernels("wrong", where), *(make_python_candidate(expression) for expression in 3 * WRONG)])
    hostile = [*load_kernels("hostile", where), *load_acts()]
    kinds = list(islice(cycle(TURNS[budget]), TASKS * budget))
    if budget == min(TURNS):
        hostile = Random(sample).sample(hostile, kinds.count("hostile"))
    assert len(hostile) == kinds.count("hostile"), "each hostile candidate appears once"
    more = iter(hostile)
    for kind in kinds:
        yield (kind, *next({"hostile": more, "wrong": wrong, "honest": honest}[kind]))


def write_scripts(scene: HostileEnvironment, folder: Path, budget: int, sample: str) -> None:
    """Write the tasks, and for every task its candidates in order."""
    (folder / "tasks").mkdir(parents=True)
    for number, (kind, text, suffix) in enumerate(order_candidates(scene.where, budget, sample)):
        task, turn = f"task_{number % TASKS:02}", number // TASKS
        (folder / "tasks" / f"{task}.py").write_text((HERE / "hostile_task.py").read_text())
        path = folder / "script" / task / f"{turn:02}-{kind}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class FinishedRun(NamedTuple):
    """A finished run with everything observed during it."""

    scene: HostileEnvironment
    budget: int
    code: int
    log_text: str
    attempts: list[Attempt]
    processes: list[str]
    calls: list[str]
    disk: DiskMonitor


LONGER = [pytest.param(turns, id=str(turns * TASKS), marks=pytest.mark.slow(group=f"hostile run of {turns}")) for turns in (20, 40)]


@pytest.fixture(scope="module", params=[pytest.param(10, id="50"), *LONGER])
def finished_run(request, tmp_path_factory) -> Iterator[FinishedRun]:
    if missing := describe_missing_layers():
        pytest.skip(f"the attacks would harm this machine without a complete sandbox: {', '.join(missing)}")
    root = tmp_path_factory.mktemp("hostile")
    scene, listener = HostileEnvironment(root, tmp_path_factory.getbasetemp() / "cache"), Listener()
    write_scripts(scene, root, request.param, request.config.option.sample)
    command = [
        sys.executable,
        "-m",
        "evokernel.cli.main",
        "run",
        "--plain",
        "--tasks",
        str(root / "tasks"),
        "--budget",
        str(request.param),
    ]
    command += ["--workers", "2", "--out", str(scene.run), "--memory", str(scene.bank), "--backend", "hostile_mixed_backend:MixedBackend"]
    command += ["--generator", "from_files", "--set", f"generator.folder={root / 'script'}", "--policy", "value"]
    settings = {"id": "hostile", "clock": "synthetic", "protocol": "paper", "timeout_s": TIMEOUT_S, "concurrency": 4}
    settings |= {f"backend.{name}": value for name, value in scene.backend_settings(listener.port).items()}
    command += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    log = root / "log"
    with collect_stray_processes() as processes, DiskMonitor(scene.tmp) as disk, log.open("wb") as log_text:
        run = subprocess.Popen(command, cwd=scene.where, env=scene.environment(HERE), stdout=log_text, stderr=log_text, process_group=0)
        try:
            code = run.wait(RUN_S)
        except subprocess.TimeoutExpired:
            run.kill()
            code = run.wait()
    attempts = Run.open(scene.run).attempts() if (scene.run / "run.toml").exists() else []
    yield FinishedRun(scene, request.param, code, log.read_text(errors="replace"), attempts, processes, listener.close(), disk)
    scene.release()


def test_run_ends_and_journals_every_attempt(finished_run):
    assert finished_run.code == 0, finished_run.log_text[-3000:]
    assert "Traceback" not in finished_run.log_text
    tasks = [f"tasks/task_{number:02}" for number in range(TASKS)]
    assert sorted(attempt.id for attempt in finished_run.attempts) == sorted(
        f"{task}/{turn}" for task in tasks for turn in range(finished_run.budget)
    )
    assert not (finished_run.scene.run / "incidents.jsonl").exists(), (finished_run.scene.run / "incidents.jsonl").read_text()


def test_only_honest_candidates_pass(finished_run):
    wrong, too_late = [], 0
    for attempt in finished_run.attempts:
        is_honest, failure = "honest" in attempt.candidate.notes, attempt.outcome.failure
        if is_honest and failure and failure.reason == "timeout":  # the limit is short for the endless ones, and the machine may be busy
            too_late += 1
        elif attempt.outcome.feasible != is_honest:
            wrong.append(describe_attempt(attempt))
    assert wrong == []
    assert too_late < sum("honest" in attempt.candidate.notes for attempt in finished_run.attempts)


def test_no_hostile_act_succeeds(finished_run):
    assert [describe_attempt(attempt) for attempt in finished_run.attempts if "HARM" in describe_attempt(attempt)] == []


def test_host_files_are_unchanged_and_nothing_is_left(finished_run):
    assert finished_run.scene.find_problems() + finished_run.processes + finished_run.calls == []
    assert {path.name for path in finished_run.scene.run.iterdir()} == RUN_FILES
    artifact_names = {path.name for path in list_files(finished_run.scene.run / "artifacts")}
    assert artifact_names == {"reply.md", "reply.json", "reply.prompt.md"}


def test_disk_is_not_filled(finished_run):
    assert finished_run.disk.max_bytes < DISK_BYTES
    assert finished_run.disk.max_files < 25_000


def test_bank_is_intact_and_equals_the_journal(finished_run, tmp_path):
    with closing(sqlite3.connect(finished_run.scene.bank)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with Bank.open_reader(finished_run.scene.bank) as bank, Bank.open_reader(learn_from_journal(finished_run, tmp_path)) as relearned_bank:
        assert bank.list_values(scope=None) == relearned_bank.list_values(scope=None)
        assert len(bank.list_values(scope=None)) > 20
        assert [entry.item for entry in bank.find_items()] == [entry.item for entry in relearned_bank.find_items()]


def learn_from_journal(finished_run: FinishedRun, folder: Path) -> Path:
    """Return a new bank that learned from the journal alone: any call of the generator or the verifier would fail."""
    run = Run.open(finished_run.scene.run)
    bank = Bank.open(folder / "again.db", make_plugin("embedder", "hash"), backend=run.config.plugin_name("backend"), run=run.config.id)
    engine = Engine(run=run, generator=None, policy=make_plugin("policy", "value"), memory=bank, executor=None, distill=distill)
    assert len(list(engine.make_attempts())) == len(finished_run.attempts)
    bank.close()
    return folder / "again.db"


def describe_attempt(attempt: Attempt) -> str:
    """Describe the result of an attempt in one line."""
    first = next(iter(attempt.candidate.files.values())).splitlines()[0]
    failure = attempt.outcome.failure
    result = f"{failure.gate} {failure.reason} {failure.detail[:160]!r}" if failure else "passed"
    return f"{attempt.id} {attempt.candidate.notes} {first}: {result}"
