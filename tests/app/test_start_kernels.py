"""First kernels of the user's own: which task gets which file, and how the loop treats them."""

import logging

import pytest
from engine_parts import EchoGenerator, make_engine, make_task

from evokernel.app.start_kernels import read_start_kernels, store_start_kernels
from evokernel.core.config import RunConfig, resolve_config
from evokernel.core.errors import UserError
from evokernel.core.records import Candidate, Stage

TASKS = [make_task(name) for name in ("relu", "gelu", "tanh", "sum", "max")]
KERNEL = 'extern "C" void kernel() {}'


def settings(start: object) -> RunConfig:
    return resolve_config(None, ["backend=cpp"], start=str(start))


def test_files_of_a_folder_belong_to_the_tasks_they_are_named_after(tmp_path, caplog):
    (tmp_path / "relu.cpp").write_text(KERNEL)
    (tmp_path / "other.cpp").write_text(KERNEL)
    (tmp_path / "sum").mkdir()
    (tmp_path / "sum" / "kernel.cpp").write_text(KERNEL)
    with caplog.at_level(logging.WARNING):
        kernels = read_start_kernels(settings(tmp_path), TASKS)
    assert {task: list(kernel.files) for task, kernel in kernels.items()} == {"t/relu": ["kernel.cpp"], "t/sum": ["kernel.cpp"]}
    assert "no task is named like other.cpp" in caplog.text


def test_one_file_belongs_to_the_only_task_or_to_the_one_it_names(tmp_path):
    file = tmp_path / "mine.cpp"
    file.write_text(KERNEL)
    assert list(read_start_kernels(settings(file), TASKS[:1])) == ["t/relu"]
    with pytest.raises(UserError, match="the run has 5 tasks"):
        read_start_kernels(settings(file), TASKS)
    file.rename(tmp_path / "gelu.cpp")
    assert list(read_start_kernels(settings(tmp_path / "gelu.cpp"), TASKS)) == ["t/gelu"]


def test_unusable_start_is_refused(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_start_kernels(settings(tmp_path / "none.cpp"), TASKS)
    with pytest.raises(UserError, match="the folder is empty"):
        read_start_kernels(settings(tmp_path), TASKS)
    (tmp_path / "relu.txt").write_text("a note")
    with pytest.raises(UserError, match=r"takes kernel\.cpp"):
        read_start_kernels(settings(tmp_path), TASKS)
    (tmp_path / "relu.cpp").write_text(KERNEL)
    with pytest.raises(UserError, match="both named after t/relu"):
        read_start_kernels(settings(tmp_path), TASKS)


def start_engine(folder, **parts):
    engine = make_engine(folder, budget=4, **parts)
    if not engine.run.journal.path.exists():
        store_start_kernels(
            engine.run, {"t/relu": Candidate(backend="cpp", files={"kernel.cpp": "mine 2"}, notes="start kernel from mine.cpp")}
        )
    return engine


@pytest.mark.parametrize("cut", [0, 1, 6, 11])
def test_start_kernel_is_the_first_attempt_and_a_resumed_run_equals_a_straight_one(tmp_path, cut):
    straight = start_engine(tmp_path / "straight")
    attempts = [attempt for attempt in straight.make_attempts() if attempt.task == "t/relu"]
    assert attempts[0].candidate.code == "mine 2"
    assert (attempts[0].stage, attempts[0].shown_items, attempts[0].usage.calls) == (Stage.DRAFT, (), 0)
    assert attempts[0].outcome.feasible
    assert attempts[1].start_point == "t/relu/0"
    assert "t/relu/0" not in straight.generator.calls
    assert straight.memory.get([attempts[0].memory_id])[0].code == "mine 2"
    first = start_engine(tmp_path / "cut")
    iterator = first.make_attempts()
    for _ in range(cut):
        next(iterator)
    iterator.close()
    first.close()
    list(make_engine(tmp_path / "cut", budget=4).make_attempts())
    assert (tmp_path / "cut" / "attempts.jsonl").read_bytes() == (tmp_path / "straight" / "attempts.jsonl").read_bytes()


def test_no_step_is_paid_for_a_start_kernel(tmp_path):
    class Planner(EchoGenerator):
        steps = ("plan",)

        def __init__(self):
            super().__init__()
            self.planned = []

        def take_step(self, name, state, context):
            self.planned.append(state.next_id)

        def repair(self, state, context, candidate, outcome):
            return None

    engine = start_engine(tmp_path / "a", generator=Planner())
    list(engine.make_attempts())
    assert "t/relu/0" not in engine.generator.planned
    assert "t/relu/1" in engine.generator.planned
