"""The Ascend C templates on the simulator: safe decisions give correct kernels, and unsafe ones violate the expected rule."""

from random import Random

import pytest
from sampling import one_in

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Context, Job, Stage
from evokernel.core.state import State
from evokernel.generators.template_search import TemplateSearch
from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects import get_dialect
from evokernel.generators.template_search.dialects.ascendc import conv
from evokernel.generators.template_search.evidence import Evidence, read_decisions
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.option_model import OptionModel
from evokernel.generators.template_search.search import DecisionSearch
from evokernel.generators.template_search.search_space import KernelDecisions, build_search_space
from evokernel.generators.template_search.stage_planner import FUSION_MODES
from evokernel.memory import seed_cards
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

STARTER = {task.id.split("/")[1]: task for task in load_tasks("starter")}
HINTS = get_dialect("ascendc").hints
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nA = 24\nB = 40\n"
TAIL = "\n\ndef get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
FORWARD = "class Model(nn.Module):\n    def forward(self, {names}):\n        return {body}\n"
SAFE = {
    "blocks": "cores", "staging": "queue", "depth": "2", "release": "free", "tile": "2048", "tail": "pad", "share": "even",
    "temps": "reuse", "algorithm": "whole", "rows": "fill", "hoist": "once", "keep": "kept", "reduce": "level", "store": "copy",
    "split": "partials", "divide": "reciprocal", "tanh": "exp", "through": "bind", "index": "bits", "shift": "max", "unit": "cube",
    "part": "64", "ksteps": "2", "block": "4", "columns": "64", "ktile": "64", "accumulate": "axpy", "banks": "apart", "fuse": "all",
    "windows": "vector",
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
    "product whose rows are further apart than 16 bits": (
        "x, y", "x @ y", "torch.randn(A, 20), torch.randn(20, 70001)", {"part": "fit"}),
    "product of a batch": ("x, y", "torch.bmm(x, y)", "torch.randn(3, A, B), torch.randn(3, B, 36)", {"unit": "vector"}),
    "argmax": ("x", "x.argmax(1)", "torch.randn(A, B)", {"algorithm": "chunks"}),
    "rows by index": ("x, i", "torch.index_select(x, 0, i)", "torch.randn(A, B), torch.randint(0, A, (33,))", {}),
    "running sum": ("x", "torch.cumsum(x, 1)", "torch.randn(A, B)", {"algorithm": "serial"}),
    "running sum by the library": ("x", "torch.cumsum(x, 1)", "torch.randn(130, 201)", {"algorithm": "library"}),
    "running sum of long rows": ("x", "torch.cumsum(x, 1)", "torch.randn(2, 4200)", {"algorithm": "library"}),
    "pooling with stride two": ("x", "F.max_pool2d(x, 3, 2, 1)", "torch.randn(2, 3, A, 23)", {"across": "block"}),
    "pooling over three axes": ("x", "F.avg_pool3d(x, 2, 2)", "torch.randn(1, 2, 5, 8, 11)", {"across": "block"}),
    "transposed": ("x", "x.permute(2, 0, 1).contiguous()", "torch.randn(A, B, 6)", {}),
    "every other column": ("x", "x[:, 1::2].contiguous()", "torch.randn(A, B)", {}),
    "reversed": ("x", "x.flip(-1)", "torch.randn(A, B)", {}),
    "joined": ("x, y", "torch.cat((x, torch.relu(y)), dim=1)", "torch.randn(A, B), torch.randn(A, 6)", {}),
    "elements by index": ("x, i", "x.gather(1, i)", "torch.randn(A, B), torch.randint(0, B, (A, B))", {"algorithm": "gather"}),
    "more indices than fit into local memory": (
        "x, i", "torch.index_select(x, 1, i)", "torch.randn(9, B), torch.randint(0, B, (431 * A,))", {"algorithm": "gather"}),
    "positions": ("x", "torch.softmax(torch.tril(x), -1)", "torch.randn(3, A, A)", {}),
    "integers": ("x, m", "(x * (m == 1)).sum(1) / (m == 1).sum(1)", "torch.randn(A, B), torch.randint(0, 2, (A, B))", {}),
    "convolution": (
        "x, w, b", "torch.relu(F.conv2d(x, w, b, stride=2, padding=1))",
        "torch.randn(2, 5, A, 13), torch.randn(9, 5, 3, 3), torch.randn(9)", {}),
    "convolution over parts of long rows": (
        "x, w", "F.conv2d(x, w, padding=2, dilation=2, groups=2)",
        "torch.randn(1, 6, 9, 28 * A), torch.randn(20, 3, 3, 3)", {"part": "fit"}),
    "convolution over three axes": (
        "x, w", "F.conv3d(x, w, padding=1, dilation=(1, 2, 1))",
        "torch.randn(1, 3, 5, A, 14), torch.randn(18, 3, 3, 3, 2)", {"part": "32"}),
    "convolution on the cube alone": (
        "x, w, b", "F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), groups=2)",
        "torch.randn(2, 40, A, 23), torch.randn(36, 20, 3, 4), torch.randn(36)", {"windows": "cube", "part": "fit"}),
    "convolution over parts of long rows, on the cube alone": (
        "x, w", "F.conv2d(x, w, padding=2, dilation=2, groups=2)",
        "torch.randn(1, 34, 9, 28 * A), torch.randn(20, 17, 3, 3)", {"windows": "cube", "part": "fit"}),
    "convolution over three axes, on the cube alone": (
        "x, w", "F.conv3d(x, w, padding=1, dilation=(1, 2, 1))",
        "torch.randn(1, 19, 5, A, 14), torch.randn(18, 19, 3, 3, 2)", {"windows": "cube", "part": "32"}),
    "transposed convolution": (
        "x, w, b", "F.conv_transpose2d(x, w, b, stride=2, padding=1)",
        "torch.randn(1, 6, A, 7), torch.randn(6, 9, 3, 3), torch.randn(9)", {}),
    "transposed convolution in groups, with a dilation": (
        "x, w", "F.conv_transpose2d(x, w, stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=2)",
        "torch.randn(2, 10, 11, A), torch.randn(10, 9, 3, 5)", {"part": "fit"}),
    "transposed convolution over three axes": (
        "x, w, b, y", "F.conv_transpose3d(x, w, b, stride=2, padding=1, output_padding=1) + y",
        "torch.randn(2, 4, 3, 5, A), torch.randn(4, 9, 3, 3, 3), torch.randn(9), torch.randn(2, 9, 6, 10, 2 * A)", {"part": "fit"}),
    "transposed convolution of long rows": (
        "x, w, b", "F.gelu(F.conv_transpose1d(x, w, b, stride=2, padding=1))",
        "torch.randn(2, 20, 39 * A), torch.randn(20, 37, 4), torch.randn(37)", {"part": "fit"}),
    "transposed convolution with elements that no tap reaches": (
        "x, w, y", "F.conv_transpose2d(x, w, stride=3, output_padding=(2, 1)) * y",
        "torch.randn(2, 8, 5, A), torch.randn(8, 8, 2, 2), torch.randn(2, 1, 16, 3 * A)", {"part": "32"}),
    "transposed convolution without steps": (
        "x, w, y", "F.conv_transpose2d(x, w, padding=1, dilation=2) * y",
        "torch.randn(2, 8, 9, A), torch.randn(8, 8, 3, 3), torch.randn(2, 1, 11, A + 2)", {}),
    "few channels with stride two": (
        "x, w", "F.conv2d(x, w, stride=2, padding=1, groups=3)", "torch.randn(2, 6, A, 23), torch.randn(6, 2, 3, 5)", {}),
    "convolution of lines with steps": (
        "x, w", "F.conv1d(x, w, stride=2, padding=3, dilation=2)", "torch.randn(2, 9, 3 * B), torch.randn(18, 9, 3)", {"part": "32"}),
    "convolution of parts of long lines": (
        "x, w", "F.conv1d(x, w, padding=1)", "torch.randn(2, 21, 28 * A), torch.randn(18, 21, 3)", {"part": "fit"}),
    "channels apart": ("x, w", "F.conv1d(x, w, padding=1, groups=6)", "torch.randn(2, 6, B), torch.randn(6, 1, 3)", {}),
    "long rows": ("x", "torch.softmax(x, -1)", "torch.randn(2, 70001)", {"tile": "fit"}),
    "cross entropy": ("x, y", "F.cross_entropy(x, y)", "torch.randn(A, B), torch.randint(0, B, (A,))", {"reduce": "halves"}),
    "cross entropy of several rows at once": (
        "x, y", "F.cross_entropy(x, y, ignore_index=-1)", "torch.randn(A, B), torch.randint(-1, B, (A,))", {"algorithm": "together"}),
    "norm of several rows at once": (
        "x, w", "F.layer_norm(x, w.shape, w)", "torch.randn(A, 70), torch.randn(70)", {"algorithm": "together", "tiles": "3"}),
    "argmin of several rows at once": ("x", "x.argmin(1)", "torch.randn(A, B)", {"algorithm": "together"}),
    "product of columns": (
        "x, y, z", "F.gelu(x.T @ y) * z", "torch.randn(70, A), torch.randn(70, B), torch.randn(A, 1)", {"part": "32", "ksteps": "8"}),
}  # fmt: skip
UNSAFE = {
    "tail": ({"tail": "plain"}, "alignment"),
    "staging": ({"staging": "none"}, "race"),
    "release": ({"release": "forget", "depth": "1", "tile": "512", "blocks": "1"}, "queue"),
    "tile": ({"tile": "16384"}, "local_memory"),
    "share": ({"share": "floor"}, "unwritten"),
}


def render_code(task, decisions, seed=0):
    """The code for these decisions; decisions that are left open are sampled."""
    space = build_search_space(task, "ascendc")
    return space.render_kernel(DecisionSearch(space, OptionModel([]), Random(seed), 1.0).complete(lambda group: decisions))


def write_task(tmp_path, names, body, inputs):
    (tmp_path / "task.py").write_text(HEAD + FORWARD.format(names=names, body=body) + TAIL.format(inputs=inputs))
    return load_tasks(str(tmp_path / "task.py"))[0]


def verify_code(task, text):
    candidate = Candidate(backend="ascendc", files={"kernel.asc": text})
    return verify(Job(backend="ascendc", task=task, candidate=candidate))


def test_unsupported_pattern_is_named(tmp_path):
    task = write_task(tmp_path, "x", "torch.sort(x, dim=1)[0]", "torch.randn(A, B)")
    with pytest.raises(UnsupportedPattern, match="sort"):
        build_search_space(task, "ascendc")


@pytest.mark.parametrize("name", STARTER)
def test_sampled_decisions_are_rendered_and_read_back(name):
    space = build_search_space(STARTER[name], "ascendc")
    for seed in range(8):
        decisions = DecisionSearch(space, OptionModel([]), Random(seed), 1.0).complete(lambda group: {})
        code = space.render_kernel(decisions)
        assert [line for line in code.splitlines() if line.startswith("// file: ")] == [
            "// file: tiling.h", "// file: op_host.cpp", "// file: op_kernel.cpp",
        ]  # fmt: skip
        assert read_decisions(code, HINTS) == (
            ("kernel", dict(decisions.kernel)),
            *((family, dict(choice)) for family, choice in decisions.stages),
        )


@pytest.mark.parametrize("name", ["gelu", "linear_gelu"])
def test_activations_need_no_library_function(name):
    space = build_search_space(STARTER[name], "ascendc")
    code = space.render_kernel(DecisionSearch(space, OptionModel([]), Random(0), 1.0).complete(lambda group: SAFE))
    assert "Exp(" in code
    assert "Erf(" not in code
    assert "Tanh(" not in code


@pytest.mark.parametrize(("name", "symbol"), [("matmul", "MATMUL0_KSTEPS"), ("softmax", "ROW0_TILES"), ("argmax", "ARGREDUCE0_TILES")])
def test_first_drafts_declare_tunables(name, symbol):
    writer = TemplateSearch(backend="ascendc", tuning_trials=8)
    reply = writer.write(State(task=STARTER[name]), Context(stage=Stage.DRAFT))
    assert f"// tune: {symbol} = " in reply.candidate.code


def test_product_without_epilogue_starts_the_cube_cores_alone():
    plain, mixed = (build_search_space(STARTER[name], "ascendc") for name in ("matmul", "linear_gelu"))
    texts = [
        space.render_kernel(DecisionSearch(space, OptionModel([]), Random(0), 1.0).complete(lambda group: SAFE)) for space in (plain, mixed)
    ]
    assert "KERNEL_TYPE_AIC_ONLY" in texts[0]
    assert "KERNEL_TYPE_MIX_AIC_1_2" in texts[1]


@pytest.mark.parametrize(("name", "workspace"), [("conv2d_square", "Slot("), ("conv2d_depthwise", ""), ("conv_transposed2d", "Slot(")])
def test_convolutions_write_no_columns_to_the_workspace(name, workspace):
    space = build_search_space(load_tasks(f"level1/{name}")[0], "ascendc")
    code = space.render_kernel(DecisionSearch(space, OptionModel([]), Random(0), 1.0).complete(lambda group: SAFE))
    assert "g_columns" not in code
    assert workspace in code


@pytest.mark.parametrize("name", ["batch_norm", "kl_divergence", "masked_fill"])
def test_stages_use_the_workspace_and_reset_the_pipe_between_them(name):
    space = build_search_space(load_tasks(f"level1/{name}")[0], "ascendc")
    for fuse, plan in space.plans.items():
        code = space.render_kernel(DecisionSearch(space, OptionModel([]), Random(0), 1.0).complete(lambda group, fuse=fuse: {"fuse": fuse}))
        assert code.count("pipe.Reset();") == len(plan.stages) - 1
        assert ("GetUserWorkspace" in code) >= (len(plan.stages) > 1)


@pytest.mark.parametrize("name", STARTER)
def test_every_option_changes_the_code_somewhere(name):
    space = build_search_space(STARTER[name], "ascendc")
    kernel_choice = {"fuse": "all"} if "all" in space.plans else {}
    first = space.stage_decisions(kernel_choice)[0]
    search = DecisionSearch(space, OptionModel([]), Random(0), 1.0)
    samples = [DecisionSearch(space, OptionModel([]), Random(seed), 1.0).choose_options(first, {}) for seed in range(400)]
    others = [(p.family, search.choose_options(p, {})) for p in space.stage_decisions(kernel_choice)[1:]]

    def text(choice):
        return space.render_kernel(KernelDecisions(kernel_choice, ((first.family, choice), *others))).split("\n", 1)[1]

    unchanged = {pair for choice in samples for pair in choice.items()}
    for choice in samples:
        for decision in (d for d in first.decisions if d.name in choice and d.when(choice)):
            for option in [o for o in decision.options if o != choice[decision.name] and (decision.name, o) in unchanged]:
                if text(search.choose_options(first, {**choice, decision.name: option})) != text(choice):
                    unchanged.discard((decision.name, option))
        if not unchanged:
            break
    assert not unchanged


def test_equal_seed_state_and_context_give_equal_reply():
    state, empty = State(task=STARTER["layernorm"]), Context(stage=Stage.DRAFT)
    assert TemplateSearch("ascendc", seed=3, prior="uniform").write(state, empty) == TemplateSearch(
        "ascendc", seed=3, prior="uniform"
    ).write(state, empty)
    assert len({TemplateSearch("ascendc", seed=s, prior="uniform").write(state, empty).candidate.id for s in range(10)}) > 5


def test_hints_name_existing_decisions_and_cards():
    dialect = get_dialect("ascendc")
    options = {(d.name, o) for template in dialect.templates.values() for d in template.decisions for o in d.options}
    options |= {(d.name, o) for d in (*dialect.kernel_decisions, Decision("fuse", FUSION_MODES)) for o in d.options}
    names = {name for name, _ in options}
    assert {(name, option) for name, option, _ in HINTS.signs} | set(HINTS.cards) | set(HINTS.needs) | set(HINTS.forbidden) <= options
    used_names = {name for table in (*HINTS.suspects.values(), *HINTS.remedies.values()) for name in table}
    assert used_names | set(HINTS.words) | {name for decisions in HINTS.sizes.values() for name in decisions} <= names
    assert HINTS.common <= {option for _, option in options}
    cards = "\n".join(f"{c.title}\n{c.text}\n{c.code}\n{' '.join(c.apis)}" for c in seed_cards.load_seed_cards("ascendc")).lower()
    for table in (HINTS.cards, HINTS.forbidden, HINTS.needs):
        for pair, phrases in table.items():
            assert any(phrase in cards for phrase in phrases), pair


def test_violated_rule_blames_its_decision():
    choice = {"staging": "queue", "depth": "1", "release": "forget", "tail": "pad", "tile": "2048"}
    message = "E-QUE-ALLOC at op_kernel.cpp line 35: AllocTensor: all 1 buffers of the queue are in use"
    model = OptionModel([Evidence((("map", choice),), False, "queue", message)], HINTS)
    assert model.score_option("map", "release", "forget") < model.score_option("map", "depth", "1") - 0.5
    full = OptionModel([Evidence((("map", choice),), False, "local_memory", "E-UB-FULL")], HINTS)
    assert full.score_option("map", "tile", "2048") < full.score_option("map", "tile", "16384") < full.score_option("map", "tile", "512")


needs_compiler = pytest.mark.skipif(bool(make_plugin("backend", "ascendc").unavailable_reason()), reason="no C++ compiler")


@pytest.mark.slow(one_in=5)
@needs_compiler
@pytest.mark.parametrize("name", one_in(7, VARIANTS))
def test_safe_decisions_give_correct_kernels(tmp_path, name):
    names, body, inputs, decisions = VARIANTS[name]
    task = write_task(tmp_path, names, body, inputs)
    outcome = verify_code(task, render_code(task, {**SAFE, **decisions}))
    assert outcome.feasible, outcome.failure


@needs_compiler
@pytest.mark.parametrize("body", ["x * y + z * u - v", "torch.softmax(x * y + z * u - v, 1)"])
def test_many_operands_have_one_buffer_for_each_queue(tmp_path, body):
    task = write_task(tmp_path, "x, y, z, u, v", body, ", ".join(["torch.randn(A, 2100)"] * 5))
    outcome = verify_code(task, render_code(task, {**SAFE, "algorithm": "chunks", "tile": "512", "blocks": "1"}))
    assert outcome.feasible, outcome.failure


@needs_compiler
def test_columns_of_a_convolution_on_the_vector_unit_fit_into_a_bounded_workspace(tmp_path, monkeypatch):
    monkeypatch.setattr(conv, "COLUMN_BYTES", 4096)
    inputs = "torch.randn(2, 6, A, 7), torch.randn(6, 9, 3, 3), torch.randn(9), torch.randn(2, 1, 1, 1)"
    task = write_task(tmp_path, "x, w, b, y", "F.conv_transpose2d(x, w, b, stride=2, padding=1) * y", inputs)
    code = render_code(task, {**SAFE, "unit": "vector"})
    assert "std::max<uint64_t>(1, 1024 / (" in code
    outcome = verify_code(task, code)
    assert outcome.feasible, outcome.failure


@needs_compiler
def test_transposed_convolution_multiplies_no_zeros(tmp_path):
    inputs = "torch.randn(2, 16, A, 16), torch.randn(16, 16, 4, 4)"
    task = write_task(tmp_path, "x, w", "F.conv_transpose2d(x, w, stride=2, padding=1)", inputs)
    outcome = verify_code(task, render_code(task, {**SAFE, "part": "fit"}))
    assert outcome.feasible, outcome.failure
    # Columns of 2 taps down and 3 places across for each phase down, and the results twice; columns of zeros, too, would take 3.2 MB.
    columns, results = 2 * 2 * 16 * 2 * 3 * 24 * 16, 2 * 16 * 48 * 32
    assert outcome.profile.figures["UB_to_GM_datas(KB)"] * 1024 < 1.5 * 4 * (columns + 2 * results)


@needs_compiler
@pytest.mark.parametrize("decision", one_in(5, UNSAFE))
def test_unsafe_decisions_violate_the_expected_rule(tmp_path, decision):
    decisions, reason = UNSAFE[decision]
    task = write_task(tmp_path, "x", "F.gelu(x, approximate='tanh')", "torch.randn(A, 39)")
    outcome = verify_code(task, render_code(task, {**SAFE, **decisions}))
    assert not outcome.feasible
    assert outcome.failure.reason == reason
