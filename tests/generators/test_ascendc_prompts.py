"""Prompts for operators with matrix products on `ascendc`, from cards and opportunities to the text, compared with golden files."""

import pytest
from prompt_cases import GOLDEN, assert_golden

from evokernel.core.plugins import make_plugin, plugin_folder
from evokernel.core.records import Attempt, Candidate, GateResult, MemoryItem, Opportunity, Outcome, Profile, Stage
from evokernel.core.state import State
from evokernel.generators.prompting import PromptBuilder
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.seed_cards import load_seed_cards
from evokernel.suites.loader import load_tasks

EXAMPLE_BY_TASK = {"level2/linear_dropout_softmax": "product-with-epilogue", "attention/causal": "attention-in-steps"}
"""The worked example of each task; both cite the product by hand."""
START_CODE = (plugin_folder("backend", "ascendc") / "samples" / "good" / "kernel.asc").read_text()
PROFILE = Profile(
    bottleneck="vector",
    summary="The vector unit is busy 97 % of 183.2 us.",
    figures={"vector_percent": 97.0},
    opportunities=(
        Opportunity(
            cause="product_on_vector",
            gain_us=174.1,
            line=61,
            summary="The product takes 176 us on the vector unit, about 9 us on the cube: use Matmul.",
        ),
        Opportunity(cause="no_overlap", gain_us=12.4, line=55, summary="Copies wait for the vector unit: use two buffers."),
        Opportunity(cause="launch", gain_us=2.0, summary="The fixed cost of the launch."),
    ),
)
FILLER = "// filler"
EXAMPLE = MemoryItem(
    id="earlier:level1/matmul_square/3",
    kind="trace",
    backend="ascendc",
    title="matmul · level1/matmul_square · refined: correct, 7.1 us",
    text="Correct, 7.1 us.",
    code="\n".join([*[FILLER] * 80, "Cube cube;", "CrossCoreSetFlag<2, PIPE_FIX>(0);", *[FILLER] * 80]),
    key="def forward(self, a, b):\n    return a @ b",
    task="level1/matmul_square",
    family="matmul",
    feasible=True,
    latency_us=7.1,
    speedup=0.85,
)


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    path = tmp_path_factory.mktemp("ascendc") / "bank.db"
    with Bank.open(path, make_plugin("embedder", "hash"), backend="ascendc", run="r") as bank:
        bank.add(load_seed_cards("ascendc"))
        yield bank


@pytest.fixture(scope="module")
def bank_with_kernels(tmp_path_factory):
    """A bank with one useful kernel, and kernels that must never be examples: one slow, one for an operator with an easy baseline."""
    path = tmp_path_factory.mktemp("kernels") / "bank.db"
    with Bank.open(path, make_plugin("embedder", "hash"), backend="ascendc", run="r") as bank:
        bank.add(load_seed_cards("ascendc"))
        slow = {"id": "earlier:level1/matmul_batched/1", "task": "level1/matmul_batched", "speedup": 0.07}
        unrelated = {
            "id": "earlier:mhc/sinkhorn_knopp/2",
            "task": "mhc/sinkhorn_knopp",
            "family": "softmax",
            "speedup": 13.0,
            "code": "Exp();",
        }
        bank.add([EXAMPLE, EXAMPLE.model_copy(update=slow), EXAMPLE.model_copy(update=unrelated)])
        yield bank


def find_task(id):
    return next(task for task in load_tasks(id) if task.id == id)


def make_policy():
    return make_plugin("policy", "value", epsilon=0.0, epsilon_end=0.0)


def make_start(task):
    first, *others = PROFILE.opportunities
    opportunities = (first.model_copy(update={"card": EXAMPLE_BY_TASK[task.id]}), *others)
    gates = tuple(GateResult(gate=gate, passed=True) for gate in ("build", "check", "time"))
    return Attempt(
        id=f"{task.id}/0",
        run="r",
        task=task.id,
        round=0,
        stage=Stage.DRAFT,
        candidate=Candidate(backend="ascendc", files={"kernel.asc": START_CODE}, notes="products on the vector unit"),
        outcome=Outcome(
            gates=gates,
            samples_us=(183.2,),
            baseline_us={"eager": (8.1,)},
            clock="estimate (ascendc simulator)",
            profile=PROFILE.model_copy(update={"opportunities": opportunities}),
        ),
        reward=1.0,
    )


def card_names(context):
    return {entry.item.id.removeprefix("ascendc/") for entry in context.items if entry.item.task is None}


@pytest.mark.parametrize("id", EXAMPLE_BY_TASK)
def test_first_draft_has_a_worked_example_and_the_cards_that_it_needs(bank, id):
    state = State(task=find_task(id))
    context = make_policy().choose(state, bank)
    assert card_names(context) >= {EXAMPLE_BY_TASK[id], "product-by-hand", "project-skeleton"}
    text = PromptBuilder("ascendc").build_text(state, context)
    assert_golden(f"ascendc_draft_{id.replace('/', '_')}.md", text)
    assert "## What a kernel costs" in text
    assert "REGIST_MATMUL_OBJ" not in text, "the examples multiply by hand"


def test_example_that_shows_parts_of_a_kernel_comes_with_the_parameters_of_the_cube(bank):
    context = make_policy().choose(State(task=find_task("level1/conv2d_square")), bank)
    assert card_names(context) >= {"convolution-with-epilogue", "cube-parameters"}


@pytest.mark.parametrize(("id", "has_products"), [("level1/softmax", False), ("starter/cumsum", True), ("mhc/mhc_update", True)])
def test_only_operators_that_may_use_the_matrix_unit_have_its_rules_and_costs(id, has_products):
    text = PromptBuilder("ascendc").describe_task(find_task(id))
    assert [words in text for words in ("**Matmul.**", "**Cube.**", "`Mmad`", "CrossCoreSetFlag<2")] == 4 * [has_products]
    assert all(words in text for words in ("\n\n**Order.**", "\n\n**Exists**", "`SyncAll`, and flags of mode 0"))
    assert "\n\n\n" not in text[text.index("## Rules") :]


@pytest.mark.parametrize("id", EXAMPLE_BY_TASK)
def test_refinement_has_opportunities_and_one_worked_example(bank_with_kernels, id):
    task = find_task(id)
    start = make_start(task)
    bank_with_kernels.add(distill(task, start))
    state = State(task=task, attempts=(start,), round=1)
    context = make_policy().choose(state, bank_with_kernels)
    causes = {entry.item.id: entry.cause for entry in context.items}
    assert card_names(context) == {EXAMPLE_BY_TASK[id], "product-by-hand"}, "the gain of a second buffer is small beside it"
    assert causes[f"ascendc/{EXAMPLE_BY_TASK[id]}"] == "product_on_vector"
    assert not [entry for entry in context.items if entry.role == "trace"], "the card is the one worked example"
    text = PromptBuilder("ascendc").build_text(state, context)
    assert text.index("| product_on_vector") < text.index("| no_overlap") < text.index(START_CODE[:200]) < text.index("## From memory")
    assert_golden(f"ascendc_refine_{id.replace('/', '_')}.md", text)


MAX_CHARS = {"draft": 22_500, "refine": 18_800}
"""Bounds of the golden prompts; of a refinement without its start point."""


@pytest.mark.parametrize("id", EXAMPLE_BY_TASK)
@pytest.mark.parametrize("stage", MAX_CHARS)
def test_golden_prompts_stay_short(id, stage):
    text = (GOLDEN / f"ascendc_{stage}_{id.replace('/', '_')}.md").read_text()
    start = START_CODE if stage == "refine" else ""
    assert start in text
    assert len(text) - len(start) < MAX_CHARS[stage]


LONGEST = {
    ("ascendc", "level1/conv2d_square"): 22_000,
    ("ascendc", "level1/softmax"): 18_000,
    ("pallas", "level1/conv2d_square"): 15_000,
    ("pallas", "level2/linear_dropout_softmax"): 15_000,
    ("pallas", "attention/causal"): 17_500,
}
"""Characters of a first draft."""


@pytest.mark.parametrize(("backend", "id"), LONGEST)
def test_first_drafts_of_other_operators_stay_short(backend, id, tmp_path):
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend=backend, run="r") as bank:
        bank.add(load_seed_cards(backend))
        state = State(task=find_task(id))
        assert len(PromptBuilder(backend).build_text(state, make_policy().choose(state, bank))) < LONGEST[backend, id]
