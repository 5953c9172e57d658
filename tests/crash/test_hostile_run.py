"""A run of which most candidates, or every third, are hostile: it ends, it judges rightly, it keeps what it learned, and leaves nothing."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import pytest
from hostile_scene import IN_TURN, Listener, Scene, Watch, files, strays

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Attempt
from evokernel.core.run import Run
from evokernel.engine.loop import Engine
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.sandbox.layers import lacking

HERE = Path(__file__).parent
TASKS, TIMEOUT_S, RUN_S = 5, 2, 500
TURNS = {20: ("honest", "hostile", "hostile", "wrong", "hostile", "hostile"), 40: ("honest", "wrong", "hostile")}
"""In what order they play, by the number of attempts per task: each hostile candidate has one turn in either."""
DISK_BYTES = 300 << 20
KEPT = {"run.toml", "tasks.jsonl", "attempts.jsonl", "finals.jsonl", "lock", "artifacts", "report.html", "plots"}
HONEST = ("2 * x", "x + x", "np.add(x, x)", "(4 * x) / 2", "np.ldexp(x, 1)", "np.multiply(2, x)")
WRONG = ("x", "0 * x", "2 * x + 1", "np.nan * x", "-2 * x", "2 * x.mean()")

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="looks for what is left in /proc"), pytest.mark.timeout(RUN_S + 100)]


def plain(expression: str) -> tuple[str, str]:
    """A Python candidate that does nothing but compute."""
    head = "import numpy as np\ndef kernel(arguments):\n    x = arguments.inputs[0].data\n"
    return f"{head}    arguments.outputs[0].data[...] = {expression}\n", "py"


def kernels(kind: str, where: Path) -> list[tuple[str, str]]:
    """C++ candidates: looked at as `cpp` does, or (.cc) not at all."""
    found = sorted((HERE / "hostile_kernels").glob(f"{kind}_*"))
    return [(path.read_text().replace("@WHERE@", str(where)), path.suffix[1:]) for path in found]


def acts() -> list[tuple[str, str]]:
    """The hostile Python candidates but those that a warm judge is given by itself; some act when loaded, some when called."""
    found = sorted(path for path in (HERE / "hostile_acts").glob("*.py") if path.stem not in IN_TURN)
    return [(f"# at {('call', 'load')[number % 2]}: {path.stem}\n{path.read_text()}", "py") for number, path in enumerate(found)]


def cast(where: Path, budget: int) -> Iterator[tuple[str, str, str]]:
    """Kind, text and suffix of every attempt."""
    honest = cycle([*kernels("honest", where), *(plain(expression) for expression in 3 * HONEST)])
    wrong = cycle([*kernels("wrong", where), *(plain(expression) for expression in 3 * WRONG)])
    hostile = [*kernels("hostile", where), *acts()]
    kinds = list(islice(cycle(TURNS[budget]), TASKS * budget))
    assert len(hostile) == kinds.count("hostile"), "each has its turn"
    more = iter(hostile)
    for kind in kinds:
        yield (kind, *next({"hostile": more, "wrong": wrong, "honest": honest}[kind]))


def write_scripts(scene: Scene, folder: Path, budget: int) -> None:
    """Tasks, and for every task its candidates in the order in which they are played."""
    (folder / "tasks").mkdir(parents=True)
    for number, (kind, text, suffix) in enumerate(cast(scene.where, budget)):
        task, turn = f"task_{number % TASKS:02}", number // TASKS
        (folder / "tasks" / f"{task}.py").write_text((HERE / "hostile_task.py").read_text())
        path = folder / "script" / task / f"{turn:02}-{kind}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class Ran(NamedTuple):
    """A run that is over, and what was seen meanwhile."""

    scene: Scene
    budget: int
    code: int
    said: str
    attempts: list[Attempt]
    processes: list[str]
    calls: list[str]
    disk: Watch


@pytest.fixture(scope="module", params=[pytest.param(20, id="100"), pytest.param(40, id="200", marks=pytest.mark.slow)])
def ran(request, tmp_path_factory) -> Iterator[Ran]:
    if missing := lacking():
        pytest.skip(f"without its walls the machine would come to harm: {', '.join(missing)}")
    root = tmp_path_factory.mktemp("hostile")
    scene, listener = Scene(root, tmp_path_factory.getbasetemp() / "cache"), Listener()
    write_scripts(scene, root, request.param)
    command = [sys.executable, "-m", "evokernel.cli.main", "run", "--plain", "--tasks", str(root / "tasks"), "--budget", str(request.param)]
    command += ["--workers", "2", "--out", str(scene.run), "--memory", str(scene.bank), "--backend", "hostile_both:Both"]
    command += ["--generator", "from_files", "--set", f"generator.folder={root / 'script'}", "--policy", "value"]
    chosen = {"id": "hostile", "clock": "synthetic", "protocol": "paper", "timeout_s": TIMEOUT_S, "concurrency": 4}
    chosen |= {f"backend.{name}": value for name, value in scene.settings(listener.port).items()}
    command += [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
    log = root / "log"
    with strays() as processes, Watch(scene.tmp) as disk, log.open("wb") as said:
        run = subprocess.Popen(command, cwd=scene.where, env=scene.environment(HERE), stdout=said, stderr=said, process_group=0)
        try:
            code = run.wait(RUN_S)
        except subprocess.TimeoutExpired:
            run.kill()
            code = run.wait()
    attempts = Run.open(scene.run).attempts() if (scene.run / "run.toml").exists() else []
    yield Ran(scene, request.param, code, log.read_text(errors="replace"), attempts, processes, listener.close(), disk)
    scene.release()


def test_it_ends_and_every_attempt_is_in_the_journal(ran):
    assert ran.code == 0, ran.said[-3000:]
    assert "Traceback" not in ran.said
    tasks = [f"tasks/task_{number:02}" for number in range(TASKS)]
    assert sorted(attempt.id for attempt in ran.attempts) == sorted(f"{task}/{turn}" for task in tasks for turn in range(ran.budget))
    assert not (ran.scene.run / "incidents.jsonl").exists(), (ran.scene.run / "incidents.jsonl").read_text()


def test_honest_candidates_pass_and_no_other(ran):
    wrong = [told(attempt) for attempt in ran.attempts if attempt.outcome.feasible != ("honest" in attempt.candidate.notes)]
    assert wrong == []


def test_no_candidate_could_do_what_it_tried(ran):
    assert [told(attempt) for attempt in ran.attempts if "HARM" in told(attempt)] == []


def test_host_files_are_untouched_and_nothing_is_left(ran):
    assert ran.scene.complaints() + ran.processes + ran.calls == []
    assert {path.name for path in ran.scene.run.iterdir()} == KEPT
    kept = {path.name for path in files(ran.scene.run / "artifacts")}
    assert kept == {"reply.md", "reply.json", "reply.prompt.md"}


def test_the_disk_is_not_filled_meanwhile(ran):
    assert ran.disk.most_bytes < DISK_BYTES
    assert ran.disk.most_files < 25_000


def test_the_bank_is_whole_and_holds_what_the_journal_teaches(ran, tmp_path):
    with closing(sqlite3.connect(ran.scene.bank)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with Bank.read(ran.scene.bank) as bank, Bank.read(learned_again(ran, tmp_path)) as again:
        assert bank.standings(scope=None) == again.standings(scope=None)
        assert len(bank.standings(scope=None)) > 20
        assert [entry.item for entry in bank.entries()] == [entry.item for entry in again.entries()]


def learned_again(ran: Ran, folder: Path) -> Path:
    """A new bank that learned the journal alone: whoever were asked to judge or to write would fail."""
    run = Run.open(ran.scene.run)
    bank = Bank.open(folder / "again.db", make_plugin("embedder", "hash"), backend=run.config.plugin_name("backend"), run=run.config.id)
    engine = Engine(run=run, generator=None, policy=make_plugin("policy", "value"), memory=bank, executor=None, distill=distill)
    assert len(list(engine.attempts())) == len(ran.attempts)
    bank.close()
    return folder / "again.db"


def told(attempt: Attempt) -> str:
    """What became of an attempt, in a line."""
    first = next(iter(attempt.candidate.files.values())).splitlines()[0]
    failure = attempt.outcome.failure
    became = f"{failure.gate} {failure.reason} {failure.detail[:160]!r}" if failure else "passed"
    return f"{attempt.id} {attempt.candidate.notes} {first}: {became}"
