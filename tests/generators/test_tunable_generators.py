"""Generators and tunables: template_search leaves numbers to the tuner, and prompts say how to declare them."""

import re
from random import Random

import pytest
from prompt_cases import EMPTY, TASK

from evokernel.core.records import Candidate, Context, Stage, Tuning, TuningTrial
from evokernel.core.state import State
from evokernel.core.tunables import read_tunables
from evokernel.generators import prompt_text
from evokernel.generators.prompting import TUNABLE_EXAMPLES, PromptBuilder
from evokernel.generators.template_search import TemplateSearch, find_decision_line
from evokernel.generators.template_search.declared_tunables import declare_tunables, fold_numbers, render_options, replace_options
from evokernel.generators.template_search.evidence import read_decisions
from evokernel.generators.template_search.option_model import OptionModel
from evokernel.generators.template_search.search import DecisionSearch
from evokernel.generators.template_search.search_space import build_search_space
from evokernel.generators.template_search.simplify import list_simpler_kernels
from evokernel.suites.loader import load_tasks

BACKENDS = ("cpp", "pallas", "ascendc", "triton", "cuda")
TASKS = ("starter/softmax", "starter/matmul", "starter/linear_gelu", "starter/cumsum")
CUDA_TASKS = ("starter/softmax", "starter/gelu", "starter/sum_rows", "starter/rmsnorm")


def draft(space, seed):
    return DecisionSearch(space, OptionModel([]), Random(seed), 1.0).draft([])[0]


@pytest.fixture(scope="module")
def tasks():
    return {task.id: task for task in load_tasks(",".join({*TASKS, *CUDA_TASKS}))}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tuned_constant_gives_the_kernel_of_the_other_option(backend, tasks):
    """For every declared value, the kernel with that value computes the same text as the template with that option."""
    declared = 0
    for seed, name in enumerate((CUDA_TASKS if backend == "cuda" else TASKS) * 2):
        space = build_search_space(tasks[name], backend)
        decisions = draft(space, seed)
        kernel = declare_tunables(space, decisions)
        files = {space.dialect.file: kernel.code}
        tunables = read_tunables(files)
        assert tunables.default == {tunable.symbol: int(tunable.default) for tunable in kernel.tunables.values()}
        for slot, tunable in kernel.tunables.items():
            declared += 1
            for option in tunable.options:
                text = tunables.apply(files, tunables.default | {tunable.symbol: int(option)})[space.dialect.file]
                stages = read_decisions(text, space.dialect.hints)
                assert dict(stages[slot.group - (0 if decisions.kernel else 1)][1])[slot.name] == option, "evidence sees the tuned value"
                plain = text
                for constant in tunables.tunables:
                    value = option if constant.name == tunable.symbol else str(constant.default)
                    lines = [line for line in plain.splitlines() if f"{constant.name} = " not in line and " decisions: " not in line]
                    plain = "\n".join(lines).replace(constant.name, value)
                expected = render_options(space, decisions, {slot: option})
                assert fold_numbers(plain, space.dialect.file) == fold_numbers(expected, space.dialect.file)
    assert declared > (2 if backend == "cpp" else 8)


def test_without_tuning_kernels_are_as_before(tasks):
    for backend in BACKENDS:
        plain = TemplateSearch(backend, seed=3).write(State(task=tasks[TASKS[0]], round=0), Context(stage=Stage.DRAFT)).candidate
        tuned = (
            TemplateSearch(backend, seed=3, tuning_trials=8)
            .write(State(task=tasks[TASKS[0]], round=0), Context(stage=Stage.DRAFT))
            .candidate
        )
        assert " tune: " not in plain.code
        assert read_tunables(plain.files).tunables == ()
        assert find_decision_line(plain.code).split()[0] == find_decision_line(tuned.code).split()[0]


def test_a_refinement_changes_what_the_tuner_does_not(tasks):
    space = build_search_space(tasks[TASKS[0]], "ascendc")
    decisions = draft(space, 1)
    tuned = declare_tunables(space, decisions).tunables
    assert tuned
    model = OptionModel([])
    search = DecisionSearch(space, model, Random(5), 1.0, find_tuned=lambda d: declare_tunables(space, d).tunables)
    for _ in range(10):
        changed = search.change_decision(decisions, {})
        options = {
            slot: decisions.kernel[slot.name] if slot.group == 0 else decisions.stages[slot.group - 1][1][slot.name] for slot in tuned
        }
        same = replace_options(changed, {s: o for s, o in options.items() if s.group == 0 or s.name in changed.stages[s.group - 1][1]})
        assert changed == same, "numbers that the tuner chooses stay"
        assert changed != decisions


@pytest.mark.parametrize("backend", ["golden_backend:Plain", "golden_backend:Traced"])
def test_prompts_explain_tunables_if_the_run_tunes(backend):
    with_tuning, without = (PromptBuilder(backend, tunes=flag).build_text(State(task=TASK), EMPTY) for flag in (True, False))
    example = TUNABLE_EXAMPLES["Traced" in backend]
    assert example in with_tuning
    assert "tune" not in without.lower()
    assert len(with_tuning) - len(without) < 1000
    assert len(read_tunables({"kernel.py" if "Traced" in backend else "kernel.cpp": example}).tunables) == 2, "the example is valid"


def test_a_refining_prompt_says_what_was_tried():
    trials = (
        TuningTrial(setting={"T": 64}, latency_us=8.0, speedup=1.25),
        TuningTrial(setting={"T": 256}, reason="local_memory"),
        TuningTrial(setting={"T": 32}, latency_us=12.0, speedup=0.8),
        TuningTrial(setting={"T": 64}, latency_us=8.0, speedup=1.25, stage="verify"),
    )
    tuning = Tuning(default={"T": 128}, chosen={"T": 64}, default_us=10.0, trials=trials)
    assert prompt_text.describe_tuning(tuning) == (
        "Tuned: T = 64 (1.25x the speed of the values as written). Other values: T = 32: 12.0 us; T = 256: local_memory."
    )


def test_a_note_of_memory_gives_the_tuned_value(tasks):
    from evokernel.core.records import MemoryItem
    from evokernel.generators.template_search.evidence import read_item_decisions

    candidate = (
        TemplateSearch("pallas", seed=3, tuning_trials=8).write(State(task=tasks[TASKS[0]], round=0), Context(stage=Stage.DRAFT)).candidate
    )
    assert isinstance(candidate, Candidate)
    name = read_tunables(candidate.files).tunables[0].name
    text = f"Approach: {candidate.notes}\nCorrect.\nTuned: {name} = 777."
    item = MemoryItem(id="a", kind="experience", backend="pallas", title="", text=text)
    hints = TemplateSearch("pallas").dialect.hints
    assert "777" in {option for _, choice in read_item_decisions(item, hints) for option in choice.values()}


@pytest.mark.parametrize(("backend", "name"), [("cpp", "matmul"), ("pallas", "softmax"), ("ascendc", "linear_gelu")])
def test_tuned_kernel_can_be_rewound(backend, name):
    task = load_tasks(f"starter/{name}")[0]
    code = TemplateSearch(backend, tuning_trials=8).write(State(task=task, round=0), Context(stage=Stage.DRAFT)).candidate.code
    symbol, value, options = re.search(r"(\w+) = (\d+);?  (?://|#) tune: \w+ = (.+)", code).groups()
    other = next(option for option in options.split(" | ") if option != value)
    tuned = re.sub(rf"{symbol} = {value}(;?  (?://|#) tune)", rf"{symbol} = {other}\1", code)
    simpler = list_simpler_kernels(task, Candidate(backend=backend, files={"kernel": tuned}))
    assert simpler
    assert all("tune:" not in kernel.code for kernel in simpler)
    assert list_simpler_kernels(task, Candidate(backend=backend, files={"kernel": tuned.replace(f"= {other}", "= 7", 1)})) == []
