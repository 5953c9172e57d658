"""What who looks at the page waits for. `python benchmarks/web.py [--attempts N] [--items N] [--browser PATH]`.

A run of so many attempts (a hundred tasks, half of the kernels correct, each a few kilobytes) is written to a folder and served; a
headless browser opens it: `first paint` is the browser's own first contentful paint, `drawn` the moment at which every chart and
every task of the first page is there. `cold`: the run was not read yet; `warm`: somebody looked at it before. `update`: from the line
in the journal to the changed page. A bank of so many items is searched by text and by meaning; `first` builds the index.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from evokernel.core.config import RunConfig
from evokernel.core.journal import Journal
from evokernel.core.plugins import make_plugin
from evokernel.core.records import (
    Attempt,
    Candidate,
    ContextRef,
    GateResult,
    MemoryItem,
    Outcome,
    Profile,
    Signature,
    Stage,
    Task,
    Tensor,
    Work,
)
from evokernel.core.run import Run

TASKS, ROUNDS_WARM = 100, 5
REASONS = (("build", "compile_error"), ("check", "mismatch"), ("check", "crash"), ("screen", "forbidden"))
CODE = Path(__file__).read_text() + "\n" + Path(__file__).with_name("retrieval.py").read_text()


def task(number: int) -> Task:
    tensor = Tensor(name="x", dtype="float32", shape=(512, 512))
    signature = Signature(inputs=(tensor,), outputs=(tensor.model_copy(update={"name": "out"}),))
    family = ("activation", "matmul", "softmax", "reduction", "convolution", "loss")[number % 6]
    source = f"import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + {number}\n"
    sizes: dict[str, dict[str, int]] = {"bench": {}}
    return Task(id=f"made/op_{number:03}", family=family, source=source, signature=signature, work=Work(flops=1e8, bytes=2e6), sizes=sizes)


def attempt(of: Task, number: int, chance: random.Random, run: str, best: float) -> Attempt:
    """One more attempt on a task whose best latency is `best` (0: none yet)."""
    is_right = chance.random() < 0.5
    order = ("screen", "build", "check", "time")
    at = chance.randrange(len(CODE) - 6000)
    candidate = Candidate(backend="cpp", files={"kernel.cpp": f"// {number}\n{CODE[at : at + 6000]}"})
    shown = tuple(ContextRef(id=f"{run}:made/op_{chance.randrange(TASKS):03}/0", role="trace", q=chance.uniform(-1, 1)) for _ in range(6))
    if is_right:
        latency = (best or 1000.0) * chance.uniform(0.8, 1.3)
        samples = tuple(latency * chance.uniform(1, 1.02) for _ in range(10))
        gates = tuple(GateResult(gate=name, passed=True, seconds=0.2) for name in order)
        figures = {"ceiling_gbs": 20.0, "ceiling_gflops": 40.0, "roofline_us": 100.0}
        profile = Profile(bottleneck="memory", summary="It moves 2 GB/s of 20 GB/s.", figures=figures)
        outcome = Outcome(gates=gates, samples_us=samples, baseline_us={"eager": (500.0,) * 10}, clock="cpu", profile=profile)
    else:
        gate, reason = chance.choice(REASONS)
        passed = tuple(GateResult(gate=name, passed=True, seconds=0.2) for name in order[: order.index(gate)])
        outcome = Outcome(gates=(*passed, GateResult(gate=gate, passed=False, reason=reason, detail=f"{reason}\n" * 20, seconds=0.1)))
    stage = Stage.REFINE if best else Stage.DRAFT
    start = f"{of.id}/{chance.randrange(number)}" if best and number else None
    return Attempt(
        id=f"{of.id}/{number}", run=run, task=of.id, round=number, stage=stage, start_point=start, shown_items=shown, candidate=candidate,
        outcome=outcome, reward=chance.uniform(-1, 1) if is_right else -1.0, finished_at=1e9 + number * 60 + int(of.id[-3:]) * 0.5,
    )  # fmt: skip


def attempts(tasks: list[Task], count: int, run: str = "made") -> Iterator[Attempt]:
    """Round by round."""
    chance, best = random.Random(0), dict.fromkeys((one.id for one in tasks), 0.0)
    for made in range(count):
        of = tasks[made % len(tasks)]
        found = attempt(of, made // len(tasks), chance, run, best[of.id])
        if found.outcome.latency_us:
            best[of.id] = min(best[of.id] or found.outcome.latency_us, found.outcome.latency_us)
        yield found


def write_run(folder: Path, count: int, budget: int | None = None) -> Run:
    """A run folder with so many attempts."""
    tasks = [task(number) for number in range(TASKS)]
    config = RunConfig(id="made", tasks="made", budget=budget or count // TASKS + 1, backend={"name": "cpp"})
    run = Run.create(folder, config, tasks, {"versions": {"evokernel": "0"}, "hardware": {}})
    with run.journal.path.open("w") as file:
        file.writelines(one.model_dump_json() + "\n" for one in attempts(tasks, count))
    return run


def write_bank(path: Path, count: int) -> None:
    """A bank with so many items, all found by keys of their own; every tenth has a value."""
    import numpy as np

    from evokernel.memory.bank import put
    from evokernel.memory.index import grid
    from evokernel.memory.ledger import Update, write
    from evokernel.memory.schema import connect, transaction

    chance, dim = random.Random(1), 1024
    connection = connect(path)
    vectors = np.random.default_rng(0).standard_normal((1024, dim)).astype(np.float32)
    with transaction(connection):
        connection.execute("INSERT INTO meta VALUES ('embedder', ?)", (make_plugin("embedder", "hash").id,))
        for number in range(count):
            at = chance.randrange(len(CODE) - 2500)
            kind = ("trace", "experience", "practice")[number % 3]
            item = MemoryItem(
                id=f"made:made/op_{number % 500:03}/{number}", kind=kind, backend="cpp", title=f"attempt {number}: a kernel of rows",
                text=CODE[at : at + 500], code=CODE[at : at + 2000], task=f"made/op_{number % 500:03}", family="reduction", feasible=True,
            )  # fmt: skip
            mixed = vectors[number % 1024] + vectors[number * 7 % 1023] * chance.random()
            put(connection, "made", item, grid(mixed / np.linalg.norm(mixed)))
            if number % 10 == 0:
                write(connection, Update("made", f"made/op_000/{number}", item.id, "draft", "", chance.uniform(-1, 1), 0.3))
    connection.close()


def served(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """The program, and where it listens."""
    program = [sys.executable, "-m", "evokernel.cli.main", "web", "--port", "0", *arguments]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout
    line = process.stdout.readline()
    return process, next(word for word in line.split() if word.startswith("http")).rstrip("/")


def opened(page: Any, address: str) -> tuple[float, float]:
    """First contentful paint and time until all is drawn, in seconds."""
    begin = time.perf_counter()
    page.goto(address, wait_until="commit")
    while not (painted := page.evaluate("performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)")):
        time.sleep(0.01)
    page.wait_for_selector("#grid .cell")
    page.wait_for_load_state("load")
    return painted[0] / 1000, time.perf_counter() - begin


def look(browser_path: str, folder: Path, count: int) -> None:
    """The run in a browser."""
    from playwright.sync_api import sync_playwright

    run = write_run(folder / "runs" / "big", count)
    print(f"run of {count} attempts, {run.journal.path.stat().st_size / 1e6:.0f} MB")
    process, address = served(str(folder / "runs"))
    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto("about:blank")
            told = [opened(page, f"{address}/run?run=big")]
            told += [opened(page, f"{address}/run?run=big") for _ in range(ROUNDS_WARM)]
            size = len(page.content())
            print(f"cold  first paint {told[0][0]:.2f} s, drawn {told[0][1]:.2f} s")
            print(f"warm  first paint {median(one[0] for one in told[1:]):.2f} s, drawn {median(one[1] for one in told[1:]):.2f} s")
            print(f"page  {size / 1e3:.0f} kB")
            print(f"update {update(page, run.journal, count):.2f} s")
            task_page = f"{address}/task?run=big&task=made/op_000"
            if urlopen(task_page).status == 200:
                begin = time.perf_counter()
                page.goto(task_page)
                print(f"task  drawn {time.perf_counter() - begin:.2f} s")
            browser.close()
        print(f"server {memory_mb(process.pid):.0f} MB")
    finally:
        process.terminate()
        process.wait()


def update(page: Any, journal: Journal, count: int) -> float:
    """From the line in the journal to the page."""
    page.wait_for_selector("#live-state.on")
    last = attempt(task(0), count // TASKS, random.Random(2), "made", 1.0)
    begin = time.perf_counter()
    journal.append(last)
    page.wait_for_selector(f"#latest >> text={last.id}")
    return time.perf_counter() - begin


def memory_mb(pid: int) -> float:
    """What a process holds, in Linux's words."""
    path = Path(f"/proc/{pid}/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS")), float("nan"))


def search(folder: Path, count: int) -> None:
    """The bank, over HTTP."""
    begin = time.perf_counter()
    write_bank(folder / "bank.db", count)
    print(f"bank of {count} items, {(folder / 'bank.db').stat().st_size / 1e6:.0f} MB, written in {time.perf_counter() - begin:.0f} s")
    (folder / "none").mkdir()
    process, address = served(str(folder / "none"), "--memory", str(folder / "bank.db"))
    try:
        for name, state in (
            ("first page", ""),
            ("again", ""),
            ("text, first", "q=transaction+ledger"),
            ("text, rare", "q=zyzzyva"),
            ("value", "least=0.5"),
            ("far page", "page=1500"),
            ("meaning, first", f"how=meaning&q={quote('row softmax in one pass')}"),
            ("meaning", f"how=meaning&q={quote('tile matmul for the cache')}"),
        ):
            begin = time.perf_counter()
            while b"<h1>Reading" in urlopen(f"{address}/memory?bank=bank.db&{state}").read():
                pass  # the page asks again in the same way, when it is told that it is there
            print(f"{name:16} {time.perf_counter() - begin:.2f} s")
        print(f"server {memory_mb(process.pid):.0f} MB")
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--attempts", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome") or "")
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        if asked.attempts:
            look(asked.browser, Path(folder), asked.attempts)
        if asked.items:
            search(Path(folder), asked.items)


if __name__ == "__main__":
    main()
