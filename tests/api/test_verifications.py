"""Verification from Python: one kernel, several, from an event loop; how results look; mistakes of the caller."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from rich.console import Console

import evokernel as ek
import evokernel.backends.cpp
from evokernel.api import workers

pytestmark = pytest.mark.toolchain
SAMPLES = Path(evokernel.backends.cpp.__file__).parent / "samples"
TASK = SAMPLES / "task.py"
GOOD = (SAMPLES / "good" / "kernel.cpp").read_text()
SETTINGS = {"clock": "synthetic"}


@pytest.fixture(scope="module", autouse=True)
def _workers():
    yield
    ek.close_workers()
    assert workers.POOLS == {}


@pytest.fixture(scope="module")
def good() -> ek.Verification:
    return ek.verify(GOOD, TASK, backend="cpp", settings=SETTINGS)


@pytest.fixture(scope="module")
def wrong() -> ek.Verification:
    return ek.verify(SAMPLES / "mismatch-formula", ek.task(TASK), settings=SETTINGS)


def test_a_correct_kernel(good):
    assert good.correct
    assert good
    assert good.reason is good.record()["reason"] is None
    assert good.detail == ""
    assert good.speedup == good.outcome.speedup == pytest.approx(good.speedups["eager"])
    assert good.latency_us == good.outcome.latency_us > 0
    assert [gate.gate for gate in good.gates] == ["screen", "build", "check", "sanitize", "time"]
    assert json.loads(json.dumps(good.record()))["feasible"] is True


def test_a_wrong_kernel_is_a_result(wrong):
    assert not wrong
    assert wrong.reason == "mismatch"
    assert wrong.speedup is None
    assert wrong.latency_us is None
    assert wrong.speedups == {}
    assert "output `out` is wrong" in wrong.detail


def test_text_rich_and_html_show_the_gates_and_the_failure(good, wrong):
    assert "samples/task: passed every gate" in repr(good)
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(wrong)
    for text in (repr(wrong), wrong._repr_html_(), console.export_text()):
        assert "check" in text
        assert "mismatch" in text
        assert "not reached" in text
        assert "worst:" in text
    assert "<table>" in good._repr_html_()
    assert "<script" not in html_of_hostile_kernel(wrong)


def html_of_hostile_kernel(wrong: ek.Verification) -> str:
    gate = wrong.gates[-1].model_copy(update={"detail": "<script>alert(1)</script>", "reason": "<script>"})
    return ek.Verification(planned_like(wrong), wrong.outcome.model_copy(update={"gates": (gate,)}))._repr_html_()


def planned_like(result: ek.Verification):
    from evokernel.app.verification_pool import PlannedVerification
    from evokernel.core.config import RunConfig

    return PlannedVerification(RunConfig(), result.task, result.kernel, ())


def test_several_kernels_keep_their_order_and_share_warm_workers():
    kernels = [GOOD, {"kernel.cpp": GOOD + "// equal\n"}, SAMPLES / "compile_error-syntax" / "kernel.cpp"]
    results = ek.verify_many(kernels, TASK, backend="cpp", settings=SETTINGS, workers=1)
    assert [one.correct for one in results] == [True, True, False]
    assert len(results.correct) == 2
    assert "2 of 3 kernels passed every gate" in repr(results)
    assert "compile_error" in results._repr_html_()
    assert [one.name for one in results] == [results[0].kernel.id, results[1].kernel.id, str(kernels[2])]
    (pool,) = workers.POOLS.values()
    processes = [worker.process for worker in pool.executor.workers if worker.process]
    ek.verify(GOOD, TASK, backend="cpp", settings=SETTINGS)
    assert [worker.process for worker in pool.executor.workers if worker.process] == processes
    assert len(processes) == 1


def test_event_loop_is_not_blocked_and_gates_are_reported():
    seen: list[str] = []

    async def main() -> tuple[ek.Verification, ek.Verifications, int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        ticker = asyncio.create_task(tick())
        one = await ek.averify(
            GOOD, TASK, backend="cpp", settings=SETTINGS, on_gate=lambda gate, result: seen.append(gate), ignore_cache=True
        )
        many = await ek.averify_many([GOOD, GOOD], [TASK, ek.task(TASK)], backend="cpp", settings=SETTINGS, workers=1)
        ticker.cancel()
        return one, many, ticks

    one, many, ticks = asyncio.run(main())
    assert one.correct
    assert [result.correct for result in many] == [True, True]
    assert ticks > 5
    assert seen[:2] == ["screen", "screen"]


def test_verify_works_inside_a_running_loop():
    async def main() -> ek.Verification:
        return ek.verify(GOOD, TASK, backend="cpp", settings=SETTINGS)

    assert asyncio.run(main()).correct


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ek.verify("int x;\n", TASK), "name its language"),
        (lambda: ek.verify(GOOD, "starter/nope", backend="cpp"), "has no task 'nope'"),
        (lambda: ek.verify(GOOD, TASK, backend="cpp", baselines="compile"), "baselines must be a list"),
        (lambda: ek.verify(GOOD, TASK, backend="cpp", settings={"timeout": 3}), "unknown setting 'timeout'"),
        (lambda: ek.verify_many([GOOD, " \n"], TASK, backend="cpp"), "kernel 1: "),
        (lambda: ek.verify_many([GOOD], [TASK, TASK], backend="cpp"), "1 kernels but 2 tasks"),
        (lambda: ek.verify_many(GOOD, TASK, backend="cpp"), "takes a list of kernels"),
        (lambda: ek.verify(None, TASK, backend="cpp"), "a kernel is source text"),
        (lambda: ek.verify("nothere.cpp", TASK, backend="cpp"), "No such file"),
        (lambda: ek.verify(GOOD, TASK, backend=3), "backend is 3"),
        (lambda: ek.verify(GOOD, TASK, backend="cpp", settings=3), "settings must be a dictionary"),
        (lambda: ek.verify_many(None, TASK, backend="cpp"), "takes a list of kernels"),
        (lambda: ek.task(None), "a task is .* not NoneType"),
        (lambda: ek.attempts_df([None]), "not NoneType"),
        (lambda: ek.attempts_df(None), "not NoneType"),
        (lambda: ek.values_df(None), "not NoneType"),
        (lambda: ek.run(None), "not NoneType"),
        (lambda: ek.run("starter/softmax", out="runs/a"), "the argument folder=, not out="),
        (lambda: ek.task("starter"), "names 16 tasks"),
        (lambda: ek.open_run("nowhere"), "is not a run folder"),
        (lambda: ek.run([]), "no tasks given"),
        (lambda: ek.run("starter/softmax", bugdet=3), "unknown setting 'bugdet'"),
    ],
)
def test_mistakes_of_the_caller_get_one_line(call, message):
    with pytest.raises(ek.UserError, match=message) as info:
        call()
    assert isinstance(info.value, ek.EvoKernelError)
    assert "\n" not in str(info.value)
    assert info.value._render_traceback_() == [f"UserError: {info.value}"]


def test_tasks_are_shown_with_signature_sizes_and_work():
    task = ek.task("starter/softmax")
    assert (task.id, task.spec, task.size) == ("starter/softmax", "starter/softmax", None)
    assert task.signature.inputs[0].shape == (512, 1024)
    assert set(task.sizes) == {"bench", "small"}
    assert "x:float32[512,1024]" in task._repr_html_()
    assert "Mflop" in repr(task)
    assert 'extern "C" void kernel' in task.entry_point("cpp")
    several = ek.tasks("starter/soft*,starter/gelu")
    assert [one.id for one in several] == ["starter/softmax", "starter/gelu"]
    assert "starter/gelu" in repr(several)
    assert "<table>" in several._repr_html_()


def test_the_worker_starts_while_a_new_task_is_described(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(f"{TASK.read_text()}# {tmp_path}\n")
    ek.close_workers()
    ek.task(file)
    (pool,) = workers.POOLS.values()
    assert [worker.process is not None for worker in pool.executor.workers].count(True) == 1
    ek.close_workers()
    ek.task(file)
    assert workers.POOLS == {}


def test_a_task_of_a_file_can_be_used_from_another_folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(TASK.read_text())
    monkeypatch.chdir(tmp_path)
    task = ek.task("mine.py")
    monkeypatch.chdir("/")
    assert ek.task(task).data == task.data
