"""The sweep's Ascend C, on the twin: right where its decisions are careful, and stopped by the rule where not."""

from random import Random

import pytest
from sampling import one_in

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Context, Job, Stage, State
from evokernel.generators.template_search import Sweep
from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects import dialect_of
from evokernel.generators.template_search.evidence import Evidence, decisions_in
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.operator import Taken, operator
from evokernel.generators.template_search.option_model import Belief
from evokernel.generators.template_search.search import Writer
from evokernel.generators.template_search.stage_planner import FUSE
from evokernel.memory import seed_cards
from evokernel.tasks.loader import load
from evokernel.verify import verify

STARTER = {task.id.split("/")[1]: task for task in load("starter")}
GAPS = {"conv2d": "a conv kernel"}
WRITTEN = [name for name in STARTER if name not in GAPS]
HINTS = dialect_of("ascendc").hints
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nA = 24\nB = 40\n"
TAIL = "\n\ndef get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
FORWARD = "class Model(nn.Module):\n    def forward(self, {names}):\n        return {body}\n"
CAREFUL = {
    "blocks": "cores", "staging": "queue", "depth": "2", "release": "free", "tile": "2048", "tail": "pad", "share": "even",
    "temps": "reuse", "algorithm": "whole", "rows": "fill", "hoist": "once", "keep": "kept", "reduce": "level", "store": "copy",
    "split": "partials", "divide": "reciprocal", "tanh": "exp", "through": "bind", "index": "bits", "shift": "max", "unit": "cube",
    "part": "64", "edge": "tail", "block": "4", "columns": "64", "ktile": "64", "accumulate": "axpy", "banks": "apart", "fuse": "all",
}  # fmt: skip
VARIANTS = {
    "softmax": ("x", "torch.softmax(x, -1)", "torch.randn(A, B)", {}),
    "layer norm in chunks": (
        "x, w", "F.layer_norm(x, w.shape, w)", "torch.randn(A, B), torch.randn(B)", {"algorithm": "chunks", "tile": "512"}),
    "channel bias, with flags": (
        "x, y", "torch.tanh(x + y.view(1, -1, 1, 1))", "torch.randn(2, 5, A, 9), torch.randn(5)", {"staging": "flags"}),
    "huber loss over all cores": ("x, y", "F.smooth_l1_loss(x, y)", "torch.randn(A, B), torch.randn(A, B)", {}),
    "maximum over the middle axis": ("x", "torch.amax(x, dim=1)", "torch.randn(7, A, B)", {"staging": "barrier"}),
    "by a mask": ("x, m", "torch.where(m, x, 0.1 * x)", "torch.randn(A, B), torch.randn(A, B) > 0", {"fuse": "none"}),
    "halves": ("x", "torch.sigmoid(x)", "torch.randn(A, B).half()", {"algorithm": "chunks"}),
    "product of rows": ("x, y", "torch.relu(x @ y.T)", "torch.randn(A, 70), torch.randn(B, 70)", {"unit": "vector", "reduce": "halves"}),
    "product on the cube": ("x, y, z", "torch.relu(x @ y.T + z)", "torch.randn(A, 70), torch.randn(B, 70), torch.randn(B)", {"part": "32"}),
    "product of a batch": ("x, y", "torch.bmm(x, y)", "torch.randn(3, A, B), torch.randn(3, B, 36)", {"unit": "vector"}),
    "argmax": ("x", "x.argmax(1)", "torch.randn(A, B)", {"algorithm": "chunks"}),
    "rows by index": ("x, i", "torch.index_select(x, 0, i)", "torch.randn(A, B), torch.randint(0, A, (33,))", {}),
    "running sum": ("x", "torch.cumsum(x, 1)", "torch.randn(A, B)", {"algorithm": "serial"}),
    "cross entropy": ("x, y", "F.cross_entropy(x, y)", "torch.randn(A, B), torch.randint(0, B, (A,))", {"reduce": "halves"}),
}  # fmt: skip
CARELESS = {
    "tail": ({"tail": "plain"}, "alignment"),
    "staging": ({"staging": "none"}, "race"),
    "release": ({"release": "forget", "depth": "1", "tile": "512", "blocks": "1"}, "queue"),
    "tile": ({"tile": "16384"}, "local_memory"),
    "share": ({"share": "floor"}, "unwritten"),
}


def text_of(task, decisions, seed=0):
    """The sketches with these decisions; what they leave open is drawn."""
    found = operator(task, "ascendc")
    return found.render(Writer(found, Belief([]), Random(seed), 1.0).complete(lambda part: decisions))


def task_of(tmp_path, names, body, inputs):
    (tmp_path / "task.py").write_text(HEAD + FORWARD.format(names=names, body=body) + TAIL.format(inputs=inputs))
    return load(str(tmp_path / "task.py"))[0]


def judged(task, text):
    candidate = Candidate(backend="ascendc", files={"kernel.asc": text})
    return verify(Job(backend="ascendc", task=task, candidate=candidate))


@pytest.mark.parametrize("name", GAPS)
def test_what_it_has_no_sketch_for_it_says(name):
    with pytest.raises(NoSketch, match=GAPS[name]):
        operator(STARTER[name], "ascendc")


@pytest.mark.parametrize("name", WRITTEN)
def test_every_drawn_combination_is_written_and_read_back(name):
    found = operator(STARTER[name], "ascendc")
    for seed in range(8):
        taken = Writer(found, Belief([]), Random(seed), 1.0).complete(lambda part: {})
        code = found.render(taken)
        assert [line for line in code.splitlines() if line.startswith("// file: ")] == [
            "// file: tiling.h", "// file: op_host.cpp", "// file: op_kernel.cpp",
        ]  # fmt: skip
        assert decisions_in(code, HINTS) == (("kernel", dict(taken.whole)), *((sketch, dict(choice)) for sketch, choice in taken.stages))


@pytest.mark.parametrize("name", ["batch_norm", "kl_divergence", "masked_fill"])
def test_stages_follow_each_other_through_the_workspace(name):
    found = operator(load(f"level1/{name}")[0], "ascendc")
    for fuse, plan in found.plans.items():
        code = found.render(Writer(found, Belief([]), Random(0), 1.0).complete(lambda part, fuse=fuse: {"fuse": fuse}))
        assert code.count("pipe.Reset();") == len(plan.stages) - 1
        assert ("GetUserWorkspace" in code) >= (len(plan.stages) > 1)


@pytest.mark.parametrize("name", WRITTEN)
def test_every_option_makes_a_difference_somewhere(name):
    found = operator(STARTER[name], "ascendc")
    whole = {"fuse": "all"} if "all" in found.plans else {}
    first = found.parts(whole)[0]
    writer = Writer(found, Belief([]), Random(0), 1.0)
    draws = [Writer(found, Belief([]), Random(seed), 1.0).answer(first, {}) for seed in range(60)]
    others = [(p.sketch, writer.answer(p, {})) for p in found.parts(whole)[1:]]

    def text(choice):
        return found.render(Taken(whole, ((first.sketch, choice), *others))).split("\n", 1)[1]

    inert = {pair for taken in draws for pair in taken.items()}
    for taken in draws:
        for decision in (d for d in first.decisions if d.name in taken and d.when(taken)):
            for option in [o for o in decision.options if o != taken[decision.name] and (decision.name, o) in inert]:
                if text(writer.answer(first, {**taken, decision.name: option})) != text(taken):
                    inert.discard((decision.name, option))
        if not inert:
            break
    assert not inert


def test_equal_seed_state_and_context_give_the_equal_text():
    state, empty = State(task=STARTER["layernorm"]), Context(stage=Stage.DRAFT)
    assert Sweep("ascendc", seed=3).write(state, empty) == Sweep("ascendc", seed=3).write(state, empty)
    assert len({Sweep("ascendc", seed=s).write(state, empty).candidate.id for s in range(10)}) > 5


def test_hints_speak_of_decisions_and_cards_that_exist():
    dialect = dialect_of("ascendc")
    options = {(d.name, o) for sketch in dialect.sketches.values() for d in sketch.decisions for o in d.options}
    options |= {(d.name, o) for d in (*dialect.shared, Decision("fuse", FUSE)) for o in d.options}
    names = {name for name, _ in options}
    assert {(name, option) for name, option, _ in HINTS.signs} | set(HINTS.cards) | set(HINTS.needs) | set(HINTS.forbidden) <= options
    used = {name for table in (*HINTS.suspects.values(), *HINTS.remedies.values()) for name in table}
    assert used | set(HINTS.words) | {name for listed in HINTS.sizes.values() for name in listed} <= names
    assert HINTS.common <= {option for _, option in options}
    cards = "\n".join(f"{c.title}\n{c.text}\n{c.code}\n{' '.join(c.apis)}" for c in seed_cards.seeds("ascendc")).lower()
    for table in (HINTS.cards, HINTS.forbidden, HINTS.needs):
        for pair, phrases in table.items():
            assert any(phrase in cards for phrase in phrases), pair


def test_a_rule_that_stopped_a_kernel_blames_the_decision_behind_it():
    taken = {"staging": "queue", "depth": "1", "release": "forget", "tail": "pad", "tile": "2048"}
    told = "E-QUE-ALLOC at op_kernel.cpp line 35: AllocTensor: all 1 buffers of the queue are in use"
    belief = Belief([Evidence((("map", taken),), False, "queue", told)], HINTS)
    assert belief.score("map", "release", "forget") < belief.score("map", "depth", "1") - 0.5
    full = Belief([Evidence((("map", taken),), False, "local_memory", "E-UB-FULL")], HINTS)
    assert full.score("map", "tile", "2048") < full.score("map", "tile", "16384") < full.score("map", "tile", "512")


twin = pytest.mark.skipif(bool(make_plugin("backend", "ascendc").missing()), reason="no C++ compiler")


@twin
@pytest.mark.parametrize("name", one_in(7, VARIANTS))
def test_careful_decisions_are_right(tmp_path, name):
    names, body, inputs, decisions = VARIANTS[name]
    task = task_of(tmp_path, names, body, inputs)
    outcome = judged(task, text_of(task, {**CAREFUL, **decisions}))
    assert outcome.feasible, outcome.failure


@twin
@pytest.mark.parametrize("decision", one_in(5, CARELESS))
def test_careless_decisions_are_stopped_by_their_rule(tmp_path, decision):
    decisions, reason = CARELESS[decision]
    task = task_of(tmp_path, "x", "F.gelu(x, approximate='tanh')", "torch.randn(A, 39)")
    outcome = judged(task, text_of(task, {**CAREFUL, **decisions}))
    assert not outcome.feasible
    assert outcome.failure.reason == reason
