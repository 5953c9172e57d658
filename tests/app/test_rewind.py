"""The loop of a rewinding, without a compiler: which attempts it makes, and what survives a failure."""

from concurrent.futures import Future

import pytest
from engine_parts import make_task

from evokernel.app.rewind import FastKernel, KernelRewinder, RewindEngine, StartFromFirst, find_kernels_in_bank, find_kernels_in_runs
from evokernel.core.config import RunConfig
from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import RewindingGenerator
from evokernel.core.records import Attempt, Candidate, GateResult, Outcome, Reply, Stage
from evokernel.core.run import Run
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill

RELU, TANH = make_task("relu"), make_task("tanh")


def make_candidate(text):
    return Candidate(backend="cpp", files={"kernel.cpp": text}, notes=f"without {text}")


class ScriptedRewinder:
    """Removes `count` optimisations; the second one fails once if the service is `dead`."""

    def __init__(self, count: int | None) -> None:
        self.count, self.calls, self.is_dead = count, [], False

    def write(self, state, context):
        raise AssertionError("a rewinding drafts nothing")

    def lesson(self, state, candidate, outcome):
        return None

    def count_optimisations(self, task, candidate):
        return self.count

    def rewind(self, state, context):
        assert context.start_point.id == f"{state.task.id}/0"
        if self.is_dead:
            raise InfraError("dead")
        self.calls.append(state.next_id)
        return Reply(candidate=make_candidate(f"slow {len(state.attempts)}"))


class ScriptedExecutor:
    """Kernels that are not `fast` take twice as long; `wrong` ones fail."""

    def submit(self, job) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        is_wrong, latency_us = "wrong" in job.candidate.code, 10.0 if "fast" in job.candidate.code else 20.0
        gate = GateResult(gate="check", passed=not is_wrong, reason="mismatch" if is_wrong else "")
        future.set_result(Outcome(gates=(gate,), samples_us=() if is_wrong else (latency_us,), clock="cpu"))
        return future

    def close(self) -> None:
        pass


def make_engine(folder, generator, kernels=(("relu", "fast"),), max_variants=8):
    fast = [FastKernel(task=make_task(name), candidate=make_candidate(code), origin=f"a:t/{name}/3") for name, code in kernels]
    config = RunConfig(id="rw", budget=1, backend={"name": "cpp"})
    run = Run.open(folder) if (folder / "run.toml").exists() else Run.create(folder, config, [kernel.task for kernel in fast], {})
    run.lock()
    rewinder = KernelRewinder(generator, fast)
    bank = Bank.open(folder / "memory.db", make_plugin("embedder", "hash"), backend="cpp", run="rw")
    parts = {"generator": rewinder, "policy": StartFromFirst(), "memory": bank, "executor": ScriptedExecutor(), "distill": rewinder.distill}
    engine = RewindEngine(run=run, clock=lambda: 0.0, **parts)
    engine.max_variants = max_variants
    return engine


def rewind_all(*arguments, **more):
    engine = make_engine(*arguments, **more)
    try:
        return engine, list(engine.make_pairs())
    finally:
        engine.close()


@pytest.mark.parametrize(("count", "max_variants", "expected"), [(2, 8, 2), (5, 3, 3), (None, 4, 4), (0, 8, 0)])
def test_each_optimisation_is_removed_once(tmp_path, count, max_variants, expected):
    engine, pairs = rewind_all(tmp_path, ScriptedRewinder(count), max_variants=max_variants)
    assert [pair.slow.id for pair in pairs] == [f"t/relu/{n + 1}" for n in range(expected)]
    assert all(pair.worth == pytest.approx(2.0) and pair.item.parent == "a:t/relu/3" for pair in pairs)
    assert engine.kernels_without_variants() == (["t/relu"] if expected == 0 else [])
    with Bank.open_reader(tmp_path / "memory.db") as bank:
        assert [entry.item.id for entry in bank.find_items()] == [pair.item.id for pair in pairs]


def test_kernel_that_fails_here_is_not_rewound(tmp_path):
    generator = ScriptedRewinder(2)
    engine, pairs = rewind_all(tmp_path, generator, kernels=(("relu", "wrong"), ("tanh", "fast")))
    assert [attempt.task for attempt in engine.failed_kernels()] == ["t/relu"]
    assert {pair.task.id for pair in pairs} == {"t/tanh"}


def test_dead_service_loses_nothing(tmp_path):
    generator = ScriptedRewinder(2)
    generator.is_dead = True
    with pytest.raises(InfraError):
        rewind_all(tmp_path, generator)
    generator.is_dead = False
    _, pairs = rewind_all(tmp_path, generator)
    assert [pair.slow.id for pair in pairs] == generator.calls == ["t/relu/1", "t/relu/2"]
    _, again = rewind_all(tmp_path, generator)
    assert again == pairs
    assert len(generator.calls) == 2


def store_run(folder, run, latency_us, feasible=True, backend="cpp"):
    config = RunConfig(id=run, backend={"name": backend})
    stored = Run.create(folder / run, config, [RELU, TANH], {})
    outcome = Outcome(gates=(GateResult(gate="time", passed=feasible),), samples_us=(latency_us,))
    attempt = Attempt(
        id="t/relu/0", run=run, task="t/relu", round=0, stage=Stage.DRAFT, candidate=make_candidate(run), outcome=outcome, reward=1
    )
    stored.journal.append(attempt)
    return folder / run


def test_fastest_correct_kernel_of_each_task_is_taken(tmp_path):
    folders = [store_run(tmp_path, "a", 20.0), store_run(tmp_path, "b", 10.0), store_run(tmp_path, "c", 5.0, feasible=False)]
    config, kernels = find_kernels_in_runs(folders)
    assert config.id == "a"
    assert [(kernel.task.id, kernel.origin) for kernel in kernels] == [("t/relu", "b:t/relu/0")]
    with pytest.raises(UserError, match="no correct kernel in"):
        find_kernels_in_runs(folders[2:])
    with pytest.raises(UserError, match="another backend"):
        find_kernels_in_runs([folders[0], store_run(tmp_path, "d", 1.0, backend="pallas")])


def test_kernels_of_a_bank_whose_task_is_unknown_are_left_out(tmp_path, caplog):
    _, (pair, *_) = rewind_all(tmp_path, ScriptedRewinder(1))
    with Bank.open(tmp_path / "memory.db", make_plugin("embedder", "hash"), backend="cpp", run="a") as bank:
        bank.add(distill(RELU, pair.fast))
    with pytest.raises(UserError, match="no correct kernel of backend 'cpp'"):
        find_kernels_in_bank(tmp_path / "memory.db", RunConfig(backend={"name": "cpp"}))
    assert "t/relu is left out" in caplog.text


@pytest.mark.parametrize("name", ["template_search", "command"])
def test_shipped_generators_can_rewind(name):
    settings = {"command": "cat"} if name == "command" else {}
    assert isinstance(make_plugin("generator", name, backend="cpp", **settings), RewindingGenerator)
