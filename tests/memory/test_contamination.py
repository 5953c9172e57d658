"""Contamination: items that reveal a held-out operator are found by their content, under any name."""

import re

import pytest
from engine_parts import RENAMED
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Context, MemoryItem, Stage
from evokernel.core.state import State
from evokernel.memory.bank import Bank
from evokernel.memory.bank_contamination import HeldOutOperator, MemoryContents, check_contamination, load_memory, load_operators
from evokernel.memory.code_similarity import MIN_NGRAMS, MIN_SIMILARITY, KernelIndex, kernel_ngrams
from evokernel.memory.ledger import ValueUpdate
from evokernel.memory.packs import export_pack
from evokernel.suites.loader import load_tasks

KERNEL = """
#include <cmath>
static inline float squash(float v) { return v / (1.0f + std::exp(-v)); }
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t count = x_shape[0] * x_shape[1];
    for (int64_t i = 0; i < count; i += 8) {  // eight at a time
        for (int64_t j = i; j < std::min(i + 8, count); ++j) out[j] = squash(x[j]) * 2.0f;
    }
}
"""
OWN = ("squash", "v", "x", "x_shape", "out", "out_shape", "count", "i", "j")


def rename(code, names):
    """Return code with other names, tile sizes, comments and layout."""
    code = re.sub(r"\b\w+\b", lambda match: names.get(match[0], match[0]), code)
    return "// Somebody else's.\n" + code.replace("8", "64").replace("// eight at a time", "/* many */").replace("\n    ", "\n\t\t")


def make_item(id, **more):
    return MemoryItem(**{"id": id, "kind": "trace", "backend": "cpp", "title": "t", "text": "t", "feasible": True, **more})


@pytest.fixture
def held_out():
    return load_operators("level2/linear_relu_divide")


def find_matches(items, held_out, known=(), updates=()):
    report = check_contamination(
        MemoryContents(tuple(items), tuple(updates)), held_out, [MemoryContents(tuple(known), ())] if known else []
    )
    return {match.item: (match.operator, match.reason) for match in report.matches}


def test_operators_are_read_but_not_run(held_out):
    (task,) = load_tasks("level2/linear_relu_divide")
    assert held_out == [HeldOutOperator(task.id, task.source)]


def test_items_are_matched_under_other_names(held_out):
    ((id, source),) = held_out
    items = [
        make_item("a", task=id),
        make_item("b", task="else/b", key=re.sub(r"\d+", "77", source)),
        make_item("c", task="else/c", key=RENAMED),
        make_item("d", task=None, key=RENAMED),
        make_item("e", task="else/e", text=f"It was for this:\n{RENAMED}Good luck."),
        make_item("f", task="else/f", source=f"run/{id}/3"),
        make_item("g", task="else/g", title=f"as fast as for {id}"),
        make_item("h", task="else/h", title=f"as fast as for {id}_more and my-{id}"),
        make_item("i", task="else/i", key=source.replace("relu", "tanh")),
    ]
    reasons = {name: reason for name, (operator, reason) in find_matches(items, held_out).items() if operator == id}
    assert reasons == {"a": "task", "b": "reference", "c": "structure", "d": "structure", "e": "quote", "f": "name", "g": "name"}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.from_regex(r"\A[a-z][a-z0-9_]{2,8}\Z"), min_size=len(OWN), max_size=len(OWN), unique=True))
def test_renamed_kernel_is_a_clone(words):
    names = {old: f"q_{new}" for old, new in zip(OWN, words, strict=True)}
    clone = KernelIndex([("s/op", "own", KERNEL)]).find_clone(rename(KERNEL, names))
    assert (clone.operator, clone.item) == ("s/op", "own")
    assert clone.similarity == 1.0


def test_copy_without_its_reference_is_matched_by_its_kernel(held_out):
    """Id, task and text differ and the key is empty; its note and the kernels refined from it match as well."""
    ((id, source),) = held_out
    own = make_item("run:own/0", task=id, key=source, code=KERNEL)
    code = rename(KERNEL, {name: f"{name}_2" for name in OWN})
    copy = make_item("r2:else/x/0", task="else/x", code=code)
    note = make_item("r2:else/x/0/note", kind="experience", task="else/x", text="Tried: something")
    child = make_item("r2:else/x/1", task="else/x", parent=copy.id, code="int nothing;")
    talk = make_item("r3:else/y/0/note", kind="experience", task="else/y", text=f"It went well with this:\n{code}\nand no other.")
    other = make_item("r4:else/z/0", task="else/z", code=KERNEL.replace("v / (1.0f + std::exp(-v))", "std::max(v, 0.0f) + std::sqrt(v)"))
    copies = [copy, note, child, talk, other]
    expected = {copy.id: (id, "kernel"), note.id: (id, "related"), child.id: (id, "related"), talk.id: (id, "kernel")}
    assert find_matches([own, *copies], held_out) == {own.id: (id, "task"), **expected}
    assert find_matches(copies, held_out, known=[own]) == expected
    assert find_matches(copies, held_out) == {}, "without a kernel for the operator there is nothing to compare with"
    failed_own = own.model_copy(update={"feasible": False})
    assert find_matches([failed_own, *copies], held_out) == {own.id: (id, "task")}, "a wrong kernel may be that of another operator"


def test_kernels_of_different_operators_are_not_clones():
    """Kernels of one generator, which start alike; short kernels are not indexed."""
    generator = make_plugin("generator", "template_search", backend="cpp", prior="uniform")
    tasks = load_tasks("starter/gelu,starter/scale_shift,starter/layernorm,starter/rmsnorm,starter/matmul,starter/batched_matmul")
    codes = {task.id: generator.write(State(task=task), Context(stage=Stage.DRAFT)).candidate.code for task in tasks}
    ngrams = {id: kernel_ngrams(code) for id, code in codes.items()}
    for id, code in codes.items():
        others = KernelIndex((other, other, text) for other, text in codes.items() if other != id)
        best = max(len(ngrams[id] & theirs) / len(ngrams[id] | theirs) for other, theirs in ngrams.items() if other != id)
        assert best < MIN_SIMILARITY
        assert others.find_clone(code) is None
        assert KernelIndex([(id, id, code)]).find_clone(code).similarity == 1.0
    short = "x = y + 1"
    assert len(kernel_ngrams(short)) < MIN_NGRAMS
    assert KernelIndex([("s/op", "a", short)]).find_clone(short) is None
    assert KernelIndex([]).find_clone("") is None


def test_python_division_and_comments_are_recognised():
    python = "def kernel(x, n):\n    tile = n // 8  # rows\n    return call(x, tile)\n"
    assert kernel_ngrams(python) == kernel_ngrams(python.replace("# rows", "# lines").replace("tile", "block"))
    assert kernel_ngrams(python) != kernel_ngrams(python.replace("//", "%"))


def test_value_updates_of_an_operator_are_contamination_under_any_name(held_out):
    (id, _) = held_out[0]
    card = make_item("cpp/tip", kind="practice", feasible=None)
    alias = make_item("r:else/c/0", task="else/c", key=RENAMED)
    updates = [ValueUpdate("r", f"{task}/9", "cpp/tip", "draft", "", 1.0, 0.5) for task in (id, "else/c", "else/d")]
    report = check_contamination(MemoryContents((card,), tuple(updates)), held_out)
    assert (report.matches, report.updates, report.is_clean, report.revealed_operators) == ((), {id: 1}, False, [id])
    assert check_contamination(MemoryContents((card, alias), tuple(updates)), held_out).updates == {id: 2}
    assert check_contamination(MemoryContents((card,), tuple(updates[2:])), held_out).is_clean


def test_export_filter_removes_all_contamination(held_out, tmp_path):
    """The filtered pack is clean, also compared with the original bank."""
    ((id, source),) = held_out
    code = rename(KERNEL, {name: f"{name}_2" for name in OWN})
    items = [
        make_item("cpp/tip", kind="practice", feasible=None),
        make_item(f"r:{id}/0", task=id, key=source, code=KERNEL),
        make_item("r:else/c/0", task="else/c", key=RENAMED),
        make_item("r:else/x/0", task="else/x", code=code),
        make_item("r:else/x/0/note", kind="experience", task="else/x"),
        make_item("r:else/z/0", task="else/z", code="int main;"),
    ]
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        bank.add(items)
        for attempt in (f"{id}/0", "else/c/0", "else/x/0", "else/z/0"):
            bank.update(attempt, Stage.DRAFT, {"cpp/tip": 1.0}, 0.5)
    report = check_contamination(load_memory(tmp_path / "bank.db"), held_out)
    assert (len(report.matches), report.updates) == (4, {id: 3})
    header = export_pack(tmp_path / "bank.db", tmp_path / "pack.jsonl", exclusions=report.export_filter())
    assert (header.items, header.updates) == (2, 1)
    remaining = load_memory(tmp_path / "pack.jsonl")
    assert [one.id for one in remaining.items] == ["cpp/tip", "r:else/z/0"]
    assert check_contamination(remaining, held_out, [load_memory(tmp_path / "bank.db")]).is_clean


def test_unreadable_files_are_refused(tmp_path):
    (tmp_path / "text.txt").write_text("neither\n")
    for path, message in ((tmp_path / "text.txt", "not a memory pack"), (tmp_path / "none", "cannot read"), (tmp_path, "cannot read")):
        with pytest.raises(UserError, match=message):
            load_memory(path)
