"""The cuda backend's cards and rules: they parse, compile, may be submitted, and compute what they say where there is a GPU."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import cuda_card_tasks
import pytest
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sampling import one_in

from evokernel.backends.cuda.abi import HEADERS
from evokernel.backends.cuda.build import MISSING, find_nvcc
from evokernel.backends.gpu.program import MAX_SCRATCH, MAX_THREADS
from evokernel.core.plugins import make_plugin, plugin_folder
from evokernel.core.records import Candidate, Job, ScalarArgument, Signature, Task, Tensor, Work
from evokernel.memory.seed_cards import load_seed_cards
from evokernel.policies.excerpts import contains_identifier
from evokernel.suites.family import FAMILIES
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify
from evokernel.verifier.reasons import REASONS

HERE = plugin_folder("backend", "cuda")
CARDS = {item.id.removeprefix("cuda/"): item for item in load_seed_cards("cuda")}
BLOCKS = {name: "".join(re.findall(r"^```cuda\n(.*?)^```", item.text, re.DOTALL | re.MULTILINE)) for name, item in CARDS.items()}
SHOWN = sorted(name for name, block in BLOCKS.items() if block)
KERNELS = [name for name in SHOWN if 'extern "C" void kernel' in BLOCKS[name]]
FILES = 16
"""All fragments are compiled in so many files."""
TIMEOUT_S = 240

needs_nvcc = pytest.mark.skipif(find_nvcc("") is None, reason=MISSING)


def as_one_file(cards: list[str]) -> str:
    """Every fragment in a namespace of its own, every launch function under a name of its own."""
    included = {f"#include <{name}>" for name in HEADERS}
    parts = []
    for card in cards:
        name = card.replace("-", "_")
        found = re.findall(r"^#include .*$", BLOCKS[card], re.MULTILINE)
        text = re.sub(r"^#include .*$", "", BLOCKS[card], flags=re.MULTILINE)
        included |= set(found)
        parts.append(f"#define kernel kernel_{name}\nnamespace card_{name} {{\n{text}\n}}\n#undef kernel\n")
    return "\n".join([*sorted(included), *parts])


def make_task() -> Task:
    tensor = Tensor(name="x", dtype="float32", shape=(4, 8))
    signature = Signature(
        inputs=(tensor,),
        params=(tensor.model_copy(update={"name": "weight"}),),
        scalars=(ScalarArgument(name="eps", kind="float", value=1e-5),),
        outputs=(tensor.model_copy(update={"name": "out"}),),
    )
    return Task(id="t/t", family="elementwise", source="", signature=signature, work=Work(flops=1, bytes=1), sizes={"bench": {}})


def test_there_are_enough_api_and_practice_cards() -> None:
    kinds = Counter(item.kind for item in CARDS.values())
    assert kinds["api"] >= 18
    assert kinds["practice"] >= 26
    assert kinds.total() >= 44
    assert set(kinds) == {"api", "practice"}


def test_every_bottleneck_and_family_has_a_practice_card() -> None:
    practice = [item for item in CARDS.values() if item.kind == "practice"]
    answered = Counter(item.bottleneck for item in practice)
    assert set(answered) <= {"memory", "compute", "latency", "overhead", ""}
    assert min(answered[name] for name in ("memory", "compute", "latency", "overhead")) >= 3
    assert {item.family for item in practice} == {*FAMILIES, ""}
    assert all(not item.bottleneck for item in CARDS.values() if item.kind == "api")


def test_common_names_retrieve_no_card() -> None:
    named = {name for item in CARDS.values() for name in item.apis}
    code = [BLOCKS[name] for name in KERNELS]
    assert not {name for name in named if sum(contains_identifier(name, text) for text in code) > 0.7 * len(code)}


@pytest.mark.parametrize("card", SHOWN)
def test_card_code_passes_the_screen(card: str) -> None:
    candidate = Candidate(backend="cuda", files={"kernel.cu": BLOCKS[card]})
    assert list(make_plugin("backend", "cuda").screen(make_task(), candidate, Path())) == []


@needs_nvcc
@pytest.mark.parametrize("number", one_in(FILES, range(FILES)))
def test_card_code_compiles(number: int, tmp_path: Path) -> None:
    compiler = find_nvcc("")
    assert compiler
    (tmp_path / "cards.cu").write_text(as_one_file(SHOWN[number::FILES]))
    flags = ["-std=c++17", "-arch=sm_90", "-w", "-c", "-Xcompiler", "-fPIC"]
    done = subprocess.run(
        [compiler, *flags, "cards.cu", "-o", "cards.o"], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[:3000]


def test_every_complete_kernel_of_a_card_is_checked() -> None:
    assert cuda_card_tasks.CARDS == KERNELS


@needs_nvcc
@pytest.mark.parametrize("card", one_in(24, KERNELS))
def test_card_kernel_computes_its_operator(card: str, tmp_path: Path) -> None:
    """As far as the machine goes: without a GPU it is compiled and its launches are recorded."""
    task = load_tasks(cuda_card_tasks.task(card, tmp_path))[0]
    candidate = Candidate(backend="cuda", files={"kernel.cu": BLOCKS[card]})
    outcome = verify(Job(backend="cuda", task=task, candidate=candidate, timeout_s=TIMEOUT_S, clock="synthetic"))
    if make_plugin("backend", "cuda").device.name:
        assert outcome.feasible, outcome.failure
    else:
        assert outcome.failure
        assert outcome.failure.reason == "not_run", outcome.failure


def rendered(task: Task, versions: Mapping[str, str] = {"architecture": "sm_90a"}) -> str:
    environment = Environment(loader=FileSystemLoader(str(HERE / "prompts")), undefined=StrictUndefined)
    plugin = make_plugin("backend", "cuda")
    text = environment.get_template("rules.md").render(task=task, entry=plugin.entry_point(task), find_versions=lambda: versions)
    return " ".join(text.split())  # wherever lines are broken


def test_rules_describe_the_backend() -> None:
    text = rendered(make_task())
    assert all(f"<{header}>" in text for header in HEADERS)
    assert make_plugin("backend", "cuda").file_name in text
    assert "scalars are passed by value" in text
    assert "-std=c++17 -O3" in text
    assert "{{" not in text
    assert len(text) <= 4500
    assert "for `sm_90a` (the verifier has no GPU: kernels are compiled and recorded, but neither run nor timed)" in text
    assert "for `sm_90a` (NVIDIA H200)" in rendered(make_task(), {"architecture": "sm_90a", "gpu": "NVIDIA H200"})


def test_rules_fit_the_task() -> None:
    task = make_task()
    bare = Signature(inputs=task.signature.inputs, outputs=(*task.signature.outputs, *task.signature.outputs))
    text = rendered(task.model_copy(update={"signature": bare}))
    assert "parameters and buffers" not in text
    assert "scalars are passed" not in text
    assert "never overlap the outputs." in text


def test_explained_failures_are_reasons_of_the_verifier() -> None:
    explained = re.findall(r"^\| `(\w+)`", CARDS["what-is-checked"].text, re.MULTILINE)
    assert len(explained) >= 10
    assert set(explained) <= set(REASONS)


def test_card_limits_match_the_verifier() -> None:
    assert f"At most {MAX_SCRATCH} pieces per call" in CARDS["scratch-memory"].text
    assert f"{MAX_THREADS:,} in all" in CARDS["launch-limits"].text
