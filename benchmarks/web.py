"""Measures response times of the dashboard. `python benchmarks/web.py [--attempts N] [--items N] [--browser PATH]`.

The benchmark writes a run with N attempts (a hundred tasks, half of the kernels correct, each a few kilobytes), serves it and opens it in
a headless browser. `first paint` is the browser's first contentful paint, `drawn` the time until every chart and every task of the first
page is visible. `cold`: the server has not read the run yet; `warm`: it has. `update`: from a line in the journal to the changed page.
Then it searches a bank of N items by text and by meaning; `first` builds the index.
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
from evokernel.reports.formatting import format_attempt

TASKS, ROUNDS_WARM = 100, 5
REASONS = (("build", "compile_error"), ("check", "mismatch"), ("check", "crash"), ("screen", "forbidden"))
CODE = Path(__file__).read_text() + "\n" + Path(__file__).with_name("retrieval.py").read_text()


def make_task(number: int) -> Task:
    tensor = Tensor(name="x", dtype="float32", shape=(512, 512))
    signature = Signature(inputs=(tensor,), outputs=(tensor.model_copy(update={"name": "out"}),))
    family = ("activation", "matmul", "softmax", "reduction", "convolution", "loss")[number % 6]
    source = f"import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + {number}\n"
    sizes: dict[str, dict[str, int]] = {"bench": {}}
    return Task(id=f"made/op_{number:03}", family=family, source=source, signature=signature, work=Work(flops=1e8, bytes=2e6), sizes=sizes)


def make_attempt(task: Task, number: int, rng: random.Random, run: str, best: float) -> Attempt:
    """Return a new attempt on a task whose best latency is `best` (0: none yet)."""
    is_correct = rng.random() < 0.5
    order = ("screen", "build", "check", "time")
    start = rng.randrange(len(CODE) - 6000)
    candidate = Candidate(backend="cpp", files={"kernel.cpp": f"// {number}\n{CODE[start : start + 6000]}"})
    shown_items = tuple(ContextRef(id=f"{run}:made/op_{rng.randrange(TASKS):03}/0", role="trace", q=rng.uniform(-1, 1)) for _ in range(6))
    if is_correct:
        latency = (best or 1000.0) * rng.uniform(0.8, 1.3)
        samples = tuple(latency * rng.uniform(1, 1.02) for _ in range(10))
        gates = tuple(GateResult(gate=name, passed=True, seconds=0.2) for name in order)
        figures = {"ceiling_gbs": 20.0, "ceiling_gflops": 40.0, "roofline_us": 100.0}
        profile = Profile(bottleneck="memory", summary="It moves 2 GB/s of 20 GB/s.", figures=figures)
        outcome = Outcome(gates=gates, samples_us=samples, baseline_us={"eager": (500.0,) * 10}, clock="cpu", profile=profile)
    else:
        gate, reason = rng.choice(REASONS)
        passed_gates = tuple(GateResult(gate=name, passed=True, seconds=0.2) for name in order[: order.index(gate)])
        outcome = Outcome(gates=(*passed_gates, GateResult(gate=gate, passed=False, reason=reason, detail=f"{reason}\n" * 20, seconds=0.1)))
    stage = Stage.REFINE if best else Stage.DRAFT
    start_point = f"{task.id}/{rng.randrange(number)}" if best and number else None
    return Attempt(
        id=f"{task.id}/{number}", run=run, task=task.id, round=number, stage=stage, start_point=start_point, shown_items=shown_items,
        candidate=candidate,
        outcome=outcome, reward=rng.uniform(-1, 1) if is_correct else -1.0, finished_at=1e9 + number * 60 + int(task.id[-3:]) * 0.5,
    )  # fmt: skip


def make_attempts(tasks: list[Task], count: int, run: str = "made") -> Iterator[Attempt]:
    """Yield attempts on all tasks, round by round."""
    rng, best = random.Random(0), dict.fromkeys((one.id for one in tasks), 0.0)
    for index in range(count):
        task = tasks[index % len(tasks)]
        new_attempt = make_attempt(task, index // len(tasks), rng, run, best[task.id])
        if new_attempt.outcome.latency_us:
            best[task.id] = min(best[task.id] or new_attempt.outcome.latency_us, new_attempt.outcome.latency_us)
        yield new_attempt


def write_run(folder: Path, count: int, budget: int | None = None) -> Run:
    """Write a run folder with this number of attempts."""
    tasks = [make_task(number) for number in range(TASKS)]
    config = RunConfig(id="made", tasks="made", budget=budget or count // TASKS + 1, backend={"name": "cpp"})
    run = Run.create(folder, config, tasks, {"versions": {"evokernel": "0"}, "hardware": {}})
    with run.journal.path.open("w") as file:
        file.writelines(one.model_dump_json() + "\n" for one in make_attempts(tasks, count))
    return run


def write_bank(path: Path, count: int) -> None:
    """Write a bank with this number of items, each with a different key; every tenth has a value."""
    import numpy as np

    from evokernel.memory.index import quantize_vectors
    from evokernel.memory.item_rows import store_item
    from evokernel.memory.ledger import ValueUpdate, write_updates
    from evokernel.memory.schema import open_or_create
    from evokernel.memory.tables import write_transaction

    rng, dim = random.Random(1), 1024
    connection = open_or_create(path)
    vectors = np.random.default_rng(0).standard_normal((1024, dim)).astype(np.float32)
    with write_transaction(connection):
        connection.execute("INSERT INTO meta VALUES ('embedder', ?)", (make_plugin("embedder", "hash").id,))
        for number in range(count):
            start = rng.randrange(len(CODE) - 2500)
            kind = ("trace", "experience", "practice")[number % 3]
            item = MemoryItem(
                id=f"made:made/op_{number % 500:03}/{number}", kind=kind, backend="cpp", title=f"attempt {number}: a kernel of rows",
                text=CODE[start : start + 500], code=CODE[start : start + 2000], task=f"made/op_{number % 500:03}", family="reduction",
                feasible=True,
            )  # fmt: skip
            vector = vectors[number % 1024] + vectors[number * 7 % 1023] * rng.random()
            store_item(connection, "made", item, quantize_vectors(vector / np.linalg.norm(vector)))
            if number % 10 == 0:
                write_updates(connection, [ValueUpdate("made", f"made/op_000/{number}", item.id, "draft", "", rng.uniform(-1, 1), 0.3)])
    connection.close()


def start_server(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """Start the dashboard; return its process and address."""
    program = [sys.executable, "-m", "evokernel.cli.main", "web", "--port", "0", *arguments]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout
    line = process.stdout.readline()
    return process, next(word for word in line.split() if word.startswith("http")).rstrip("/")


def open_page(page: Any, address: str) -> tuple[float, float]:
    """Return the first contentful paint and the time until everything is drawn, in seconds."""
    start_s = time.perf_counter()
    page.goto(address, wait_until="commit")
    while not (paint_times := page.evaluate("performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)")):
        time.sleep(0.01)
    page.wait_for_selector("#grid .cell")
    page.wait_for_load_state("load")
    return paint_times[0] / 1000, time.perf_counter() - start_s


def measure_run(browser_path: str, folder: Path, count: int) -> None:
    """Measure the pages of a run in a browser."""
    from playwright.sync_api import sync_playwright

    run = write_run(folder / "runs" / "big", count)
    print(f"run of {count} attempts, {run.journal.path.stat().st_size / 1e6:.0f} MB")
    process, address = start_server(str(folder / "runs"))
    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto("about:blank")
            page_times = [open_page(page, f"{address}/run?run=big")]
            page_times += [open_page(page, f"{address}/run?run=big") for _ in range(ROUNDS_WARM)]
            size = len(page.content())
            print(f"cold  first paint {page_times[0][0]:.2f} s, drawn {page_times[0][1]:.2f} s")
            warm_paint, warm_drawn = (median(column) for column in zip(*page_times[1:]))
            print(f"warm  first paint {warm_paint:.2f} s, drawn {warm_drawn:.2f} s")
            print(f"page  {size / 1e3:.0f} kB")
            print(f"update {measure_update(page, run.journal, count):.2f} s")
            task_page = f"{address}/task?run=big&task=made/op_000"
            if urlopen(task_page).status == 200:
                start_s = time.perf_counter()
                page.goto(task_page)
                print(f"task  drawn {time.perf_counter() - start_s:.2f} s")
            browser.close()
        print(f"server {memory_mb(process.pid):.0f} MB")
    finally:
        process.terminate()
        process.wait()


def measure_update(page: Any, journal: Journal, count: int) -> float:
    """Return the seconds from a line in the journal to the changed page."""
    page.wait_for_selector("#live-state.on")
    last = make_attempt(make_task(0), count // TASKS, random.Random(2), "made", 1.0)
    start_s = time.perf_counter()
    journal.append(last)
    page.wait_for_selector(f"#latest >> text={format_attempt(last.id)}")
    return time.perf_counter() - start_s


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process, from /proc."""
    path = Path(f"/proc/{pid}/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS")), float("nan"))


def measure_bank(folder: Path, count: int) -> None:
    """Measure the pages of a bank over HTTP."""
    start_s = time.perf_counter()
    write_bank(folder / "bank.db", count)
    print(f"bank of {count} items, {(folder / 'bank.db').stat().st_size / 1e6:.0f} MB, written in {time.perf_counter() - start_s:.0f} s")
    (folder / "none").mkdir()
    process, address = start_server(str(folder / "none"), "--memory", str(folder / "bank.db"))
    try:
        for name, query in (
            ("first page", ""),
            ("repeated", ""),
            ("text, first", "q=transaction+ledger"),
            ("text, rare", "q=zyzzyva"),
            ("value", "min_value=0.5"),
            ("far page", "page=1500"),
            ("meaning, first", f"how=meaning&q={quote('row softmax in one pass')}"),
            ("meaning", f"how=meaning&q={quote('tile matmul for the cache')}"),
        ):
            start_s = time.perf_counter()
            while b"<h1>Reading" in urlopen(f"{address}/memory?bank=bank.db&{query}").read():
                pass  # the page itself repeats the request in this way until the data are read
            print(f"{name:16} {time.perf_counter() - start_s:.2f} s")
        print(f"server {memory_mb(process.pid):.0f} MB")
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--attempts", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome") or "")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        if args.attempts:
            measure_run(args.browser, Path(folder), args.attempts)
        if args.items:
            measure_bank(Path(folder), args.items)


if __name__ == "__main__":
    main()
