"""The leak audit: what tells about a held-out operator is found by what it is, whatever it is called."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_parts import RENAMED

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Context, MemoryItem, Stage, State
from evokernel.experiments.bank_contamination import Memory, Operator, audit, operators, remembered
from evokernel.experiments.code_similarity import ALIKE, FEWEST, Kernels, kernel_runs
from evokernel.memory.bank import Bank
from evokernel.memory.ledger import Update
from evokernel.memory.packs import export
from evokernel.tasks.loader import load

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


def renamed(code, names):
    """With other names, tile sizes, comments and layout."""
    code = re.sub(r"\b\w+\b", lambda found: names.get(found[0], found[0]), code)
    return "// Somebody else's.\n" + code.replace("8", "64").replace("// eight at a time", "/* many */").replace("\n    ", "\n\t\t")


def item(id, **more):
    return MemoryItem(**{"id": id, "kind": "trace", "backend": "cpp", "title": "t", "text": "t", "feasible": True, **more})


@pytest.fixture
def held_out():
    return operators("level2/linear_relu_divide")


def found(items, held_out, known=(), updates=()):
    told = audit(Memory(tuple(items), tuple(updates)), held_out, [Memory(tuple(known), ())] if known else [])
    return {leak.item: (leak.operator, leak.why) for leak in told.leaks}


def test_operators_are_read_and_not_run(held_out):
    (task,) = load("level2/linear_relu_divide")
    assert held_out == [Operator(task.id, task.source)]


def test_items_are_found_under_other_names(held_out):
    ((id, source),) = held_out
    items = [
        item("a", task=id),
        item("b", task="else/b", key=re.sub(r"\d+", "77", source)),
        item("c", task="else/c", key=RENAMED),
        item("d", task=None, key=RENAMED),
        item("e", task="else/e", text=f"It was for this:\n{RENAMED}Good luck."),
        item("f", task="else/f", source=f"run/{id}/3"),
        item("g", task="else/g", title=f"as fast as for {id}"),
        item("h", task="else/h", title=f"as fast as for {id}_more and my-{id}"),
        item("i", task="else/i", key=source.replace("relu", "tanh")),
    ]
    why = {name: reason for name, (operator, reason) in found(items, held_out).items() if operator == id}
    assert why == {"a": "task", "b": "reference", "c": "structure", "d": "structure", "e": "quote", "f": "name", "g": "name"}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.from_regex(r"\A[a-z][a-z0-9_]{2,8}\Z"), min_size=len(OWN), max_size=len(OWN), unique=True))
def test_a_renamed_kernel_is_the_same_kernel(words):
    names = {old: f"q_{new}" for old, new in zip(OWN, words, strict=True)}
    alike = Kernels([("s/op", "own", KERNEL)]).written_as(renamed(KERNEL, names))
    assert (alike.operator, alike.item) == ("s/op", "own")
    assert alike.likeness == 1.0


def test_a_planted_copy_without_its_reference_is_found_by_its_kernel(held_out):
    """Id, task and words are others, the key is emptied; its note and what was refined from it go with it."""
    ((id, source),) = held_out
    own = item("run:own/0", task=id, key=source, code=KERNEL)
    code = renamed(KERNEL, {name: f"{name}_2" for name in OWN})
    copy = item("r2:else/x/0", task="else/x", code=code)
    note = item("r2:else/x/0/note", kind="experience", task="else/x", text="Tried: something")
    child = item("r2:else/x/1", task="else/x", parent=copy.id, code="int nothing;")
    talk = item("r3:else/y/0/note", kind="experience", task="else/y", text=f"It went well with this:\n{code}\nand no other.")
    other = item("r4:else/z/0", task="else/z", code=KERNEL.replace("v / (1.0f + std::exp(-v))", "std::max(v, 0.0f) + std::sqrt(v)"))
    planted = [copy, note, child, talk, other]
    expected = {copy.id: (id, "kernel"), note.id: (id, "kin"), child.id: (id, "kin"), talk.id: (id, "kernel")}
    assert found([own, *planted], held_out) == {own.id: (id, "task"), **expected}
    assert found(planted, held_out, known=[own]) == expected
    assert found(planted, held_out) == {}, "where nobody has a kernel of the operator, a text cannot tell what another one computes"
    failed = own.model_copy(update={"feasible": False})
    assert found([failed, *planted], held_out) == {own.id: (id, "task")}, "a kernel that was wrong for it may be another operator's"


def test_kernels_of_other_operators_are_others():
    """From one writer, which begins them all alike; and short ones are not looked for."""
    sweep = make_plugin("generator", "template_search", backend="cpp")
    tasks = load("starter/gelu,starter/scale_shift,starter/layernorm,starter/rmsnorm,starter/matmul,starter/batched_matmul")
    codes = {task.id: sweep.write(State(task=task), Context(stage=Stage.DRAFT)).candidate.code for task in tasks}
    runs = {id: kernel_runs(code) for id, code in codes.items()}
    for id, code in codes.items():
        others = Kernels((other, other, text) for other, text in codes.items() if other != id)
        best = max(len(runs[id] & theirs) / len(runs[id] | theirs) for other, theirs in runs.items() if other != id)
        assert best < ALIKE
        assert others.written_as(code) is None
        assert Kernels([(id, id, code)]).written_as(code).likeness == 1.0
    short = "x = y + 1"
    assert len(kernel_runs(short)) < FEWEST
    assert Kernels([("s/op", "a", short)]).written_as(short) is None
    assert Kernels([]).written_as("") is None


def test_python_kernels_divide_and_comment_in_their_own_way():
    python = "def kernel(x, n):\n    tile = n // 8  # rows\n    return call(x, tile)\n"
    assert kernel_runs(python) == kernel_runs(python.replace("# rows", "# lines").replace("tile", "block"))
    assert kernel_runs(python) != kernel_runs(python.replace("//", "%"))


def test_values_learned_on_an_operator_are_a_leak_under_whatever_name(held_out):
    (id, _) = held_out[0]
    card = item("cpp/tip", kind="practice", feasible=None)
    alias = item("r:else/c/0", task="else/c", key=RENAMED)
    updates = [Update("r", f"{task}/9", "cpp/tip", "draft", "", 1.0, 0.5) for task in (id, "else/c", "else/d")]
    told = audit(Memory((card,), tuple(updates)), held_out)
    assert (told.leaks, told.updates, told.is_clean, told.told) == ((), {id: 1}, False, [id])
    assert audit(Memory((card, alias), tuple(updates)), held_out).updates == {id: 2}
    assert audit(Memory((card,), tuple(updates[2:])), held_out).is_clean


def test_what_the_audit_finds_can_be_left_behind(held_out, tmp_path):
    """And then it finds nothing, in the pack as in the bank that took it in."""
    ((id, source),) = held_out
    code = renamed(KERNEL, {name: f"{name}_2" for name in OWN})
    items = [
        item("cpp/tip", kind="practice", feasible=None),
        item(f"r:{id}/0", task=id, key=source, code=KERNEL),
        item("r:else/c/0", task="else/c", key=RENAMED),
        item("r:else/x/0", task="else/x", code=code),
        item("r:else/x/0/note", kind="experience", task="else/x"),
        item("r:else/z/0", task="else/z", code="int main;"),
    ]
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        bank.add(items)
        for attempt in (f"{id}/0", "else/c/0", "else/x/0", "else/z/0"):
            bank.update(attempt, Stage.DRAFT, {"cpp/tip": 1.0}, 0.5)
    told = audit(remembered(tmp_path / "bank.db"), held_out)
    assert (len(told.leaks), told.updates) == (4, {id: 3})
    header = export(tmp_path / "bank.db", tmp_path / "pack.jsonl", leaving=told.leaving())
    assert (header.items, header.updates) == (2, 1)
    left = remembered(tmp_path / "pack.jsonl")
    assert [one.id for one in left.items] == ["cpp/tip", "r:else/z/0"]
    assert audit(left, held_out, [remembered(tmp_path / "bank.db")]).is_clean


def test_what_cannot_be_looked_at(tmp_path):
    (tmp_path / "text.txt").write_text("neither\n")
    for path, says in ((tmp_path / "text.txt", "not a memory pack"), (tmp_path / "none", "cannot read"), (tmp_path, "cannot read")):
        with pytest.raises(UserError, match=says):
            remembered(path)
