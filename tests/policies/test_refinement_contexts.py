"""Refinement contexts: built from opportunities, with restraint; showing nothing has a value; values per cause of latency."""

import pytest
from engine_parts import make_attempt, make_task
from hypothesis import given
from hypothesis import strategies as st

from evokernel.core.opportunities import addressed_cause, top_opportunities
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import ItemValue
from evokernel.core.records import Attempt, ContextRef, MemoryItem, Opportunity, Profile, Signature, Stage, Tensor, Work
from evokernel.core.state import State
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.packs import ExportExclusions, PackFilters, export_pack, import_pack_file
from evokernel.policies.excerpts import MAX_EXCERPT_CHARS, list_code_names, make_diff, make_excerpt, make_failure_excerpt
from evokernel.policies.value import ValuePolicy

HASH = make_plugin("embedder", "hash", dim=256)
FILLER = "\n".join(f"int filler_{n};" for n in range(100))
TILED_CODE = f"{FILLER}\nTileLoop(8);\n{FILLER}"


@pytest.fixture
def bank(tmp_path):
    with Bank.open(tmp_path / "bank.db", HASH, backend="cpp", run="r") as bank:
        yield bank


def card(name, kind="practice", **fields):
    return MemoryItem(id=f"cpp/{name}", kind=kind, backend="cpp", title=name, text=fields.pop("text", name), **fields)


def kernel(name, code=TILED_CODE, **fields):
    fields = {"speedup": 1.2, "family": "reduction", "latency_us": 5.0, **fields}
    return MemoryItem(
        id=f"old:t/{name}/0",
        kind="trace",
        backend="cpp",
        title=name,
        text="",
        code=code,
        key=name,
        task=f"t/{name}",
        feasible=True,
        **fields,
    )


def profile(*gains, card=""):
    opportunities = tuple(Opportunity(cause=cause, gain_us=gain, card=card if n == 0 else "") for n, (cause, gain) in enumerate(gains))
    return Profile(bottleneck="memory", summary="", opportunities=opportunities)


def make_start(*gains, n=0, code="start();", latency=100.0, **fields):
    attempt = make_attempt(n, "relu", latency=latency)
    candidate = attempt.candidate.model_copy(update={"files": {"kernel.cpp": code}})
    return attempt.model_copy(
        update={"candidate": candidate, "outcome": attempt.outcome.model_copy(update={"profile": profile(*gains, **fields)})}
    )


def make_state(*attempts):
    return State(task=make_task("relu"), attempts=attempts, round=len(attempts))


def choose(bank, start, **settings):
    bank.add(distill(make_task("relu"), start))
    return ValuePolicy(epsilon=0, epsilon_end=0, **settings).choose(make_state(start), bank)


def shown_ids(context, *roles):
    return [entry.item.id for entry in context.items if entry.role in roles]


# --- opportunities ----------------------------------------------------------------------------------------------------------


def test_each_large_opportunity_gets_its_card(bank):
    bank.add([card("tiles", "api", apis=("TileLoop",)), card("overlap", causes=("no_overlap",)), card("tip")])
    bank.add([card("launch", causes=("launch",)), card("scans", causes=("no_overlap",), family="scan")])
    start = make_start(("vector_work", 60.0), ("no_overlap", 20.0), ("no_overlap", 10.0), ("launch", 1.0), card="tiles")
    context = choose(bank, start)
    assert {entry.item.id: entry.cause for entry in context.items if entry.role == "bottleneck"} == {
        "cpp/tiles": "vector_work",
        "cpp/overlap": "no_overlap",
    }  # the launch is worth too little, a card on scans does not concern this operator


def test_small_opportunity_has_no_place_beside_a_large_one(bank):
    bank.add([card("tiles", "api", apis=("TileLoop",)), card("overlap", causes=("no_overlap",))])
    context = choose(bank, make_start(("vector_work", 60.0), ("no_overlap", 5.0), card="tiles"))
    assert shown_ids(context, "bottleneck") == ["cpp/tiles"]
    context = choose(bank, make_start(("vector_work", 60.0), ("no_overlap", 7.0), n=1, card="tiles"))
    assert shown_ids(context, "bottleneck") == ["cpp/tiles", "cpp/overlap"]


def test_refinement_shows_one_kernel_and_none_for_what_a_worked_example_shows(bank):
    bank.add([card("tiles", "api", apis=("TileLoop",)), card("flags", "api", apis=("Flag",), causes=("no_overlap",))])
    bank.add([kernel("tiled"), kernel("flagged", code=TILED_CODE.replace("TileLoop", "Flag"))])
    start = make_start(("vector_work", 60.0), ("no_overlap", 50.0), card="tiles")
    assert shown_ids(choose(bank, start), "trace") == ["old:t/tiled/0"]
    bank.add([card("tiles-by-hand", "api", apis=("TileLoop",), text="`TileLoop` " * 300)])
    assert shown_ids(choose(bank, make_start(("vector_work", 60.0), n=1, card="tiles-by-hand")), "trace") == []


def test_cards_of_a_context_have_a_bound_in_characters(bank):
    bank.add([card(f"card-{n}", family="activation", text="x" * 400) for n in range(3)])
    for chars, count in ((4500, 3), (1000, 2), (0, 0)):
        assert len(shown_ids(ValuePolicy(card_chars=chars).choose(make_state(), bank), "api")) == count


def test_draft_shows_lines_of_one_related_kernel(bank):
    bank.add([card("tiles", "api", apis=("TileLoop",)), kernel("related", family="activation"), kernel("unrelated", family="scan")])
    context = ValuePolicy().choose(make_state(), bank)
    lines = {entry.item.id: bool(entry.shown_code) for entry in context.items if entry.item.code}
    assert lines == {"old:t/related/0": True, "old:t/unrelated/0": False}


def test_opportunities_are_few_and_of_different_causes():
    start = make_start(("vector_work", 60.0), ("vector_work", 30.0), ("launch", 20.0), ("spills", 9.0), ("few_cores", 8.0))
    assert [one.cause for one in top_opportunities(start)] == ["vector_work", "launch", "spills"]


def test_kernel_is_shown_for_a_technique_that_the_start_point_lacks(bank):
    bank.add([card("tiles", "api", apis=("TileLoop",))])
    bank.add([
        kernel("tiled"),
        kernel("plain", code=FILLER),
        kernel("slow", speedup=0.2),
        kernel("unknown-speed", speedup=None),
        kernel("sick", causes=("vector_work",)),
        kernel("fast-elsewhere", code="Other();", speedup=20.0),
    ])  # fmt: skip
    context = choose(bank, make_start(("vector_work", 60.0), card="tiles"))
    assert shown_ids(context, "trace") == ["old:t/tiled/0"]
    (entry,) = (entry for entry in context.items if entry.role == "trace")
    assert "TileLoop(8);" in entry.shown_code
    assert len(entry.shown_code.splitlines()) < 20
    assert entry.item.code == TILED_CODE, "the item itself stays complete"
    has_it = make_start(("vector_work", 60.0), card="tiles", code="TileLoop(4);")
    assert shown_ids(choose(bank, has_it), "trace") == []


def test_without_opportunities_slow_kernels_are_not_shown_either(bank):
    bank.add([card("memory", bottleneck="memory"), card("tip", family="activation"), kernel("tiled"), kernel("slow", speedup=0.2)])
    context = choose(bank, make_start())
    assert shown_ids(context, "bottleneck", "practice") == ["cpp/memory", "cpp/tip"]
    assert shown_ids(context, "trace") == ["old:t/tiled/0"]
    assert all(len(entry.shown_code.splitlines()) < 70 for entry in context.items)


def test_refinement_of_a_contraction_shows_cards_that_its_start_point_does_not_use(bank):
    bank.add([card("matmul", "api", family="matmul", apis=("Mm",)), card("sync", "api", families=("matmul",), apis=("Sync",))])
    bank.add([card("softmax", family="softmax")])
    task = make_task("relu").model_copy(update={"family": "attention", "families": ("attention",)})
    start = make_start(("launch", 50.0), code="Sync();")
    context = ValuePolicy().choose(State(task=task, attempts=(start,), round=1), bank)
    assert shown_ids(context, "api") == ["cpp/matmul"]
    draft = ValuePolicy().choose(State(task=task), bank)
    assert shown_ids(draft, "api") == ["cpp/matmul", "cpp/softmax", "cpp/sync"], "the parts take turns"


def test_worked_example_brings_what_it_cites_and_the_cards_on_its_apis(bank):
    long_text = 'Its type is that of\n"by-hand".' + " Mmad" * 600
    bank.add([card("fused", "api", text=long_text, family="matmul", families=("softmax",), apis=("Flags",))])
    bank.add([card("by-hand", "api", text=" x" * 1300, family="matmul", apis=("Cube",))])
    bank.add([card(name.lower(), "api", family="matmul", apis=(name,)) for name in ("Object", "Mmad")])
    task = make_task("relu").model_copy(update={"family": "matmul", "families": ("matmul", "softmax")})
    draft = ValuePolicy().choose(State(task=task), bank)
    assert shown_ids(draft, "api") == ["cpp/fused", "cpp/by-hand"], "the object is another way to multiply"
    halves = task.model_copy(update={"signature": Signature(inputs=(Tensor(name="x", dtype="float16", shape=(8,)),), outputs=())})
    assert shown_ids(ValuePolicy().choose(State(task=halves), bank), "api") == ["cpp/mmad", "cpp/fused", "cpp/by-hand"]
    start = make_start(("product_on_vector", 50.0), card="fused", code="Object();")
    context = ValuePolicy().choose(State(task=task, attempts=(start,), round=1), bank)
    assert (shown_ids(context, "bottleneck"), shown_ids(context, "api")) == (["cpp/fused"], ["cpp/by-hand"])
    context = ValuePolicy().choose(State(task=halves, attempts=(start,), round=1), bank)
    assert shown_ids(context, "api") == ["cpp/by-hand", "cpp/mmad"]
    softmax = task.model_copy(update={"family": "softmax", "families": ("softmax",)})
    assert "cpp/fused" not in shown_ids(ValuePolicy(api_cards=0).choose(State(task=softmax), bank), "api")


# --- nothing ----------------------------------------------------------------------------------------------------------------


def test_nothing_is_shown_once_it_has_the_higher_value(bank):
    bank.add([card("tiles", "api", apis=("TileLoop",)), kernel("tiled")])
    start = make_start(("vector_work", 60.0), card="tiles")
    assert shown_ids(choose(bank, start), "nothing") == []
    bank.update("t/x/0", Stage.REFINE, {"old:t/tiled/0": -1.0, "cpp/tiles": 0.5}, 0.3)
    context = choose(bank, start)
    assert (shown_ids(context, "nothing"), shown_ids(context, "trace"), shown_ids(context, "bottleneck")) == (
        ["cpp/no-kernel"],
        [],
        ["cpp/tiles"],
    )
    bank.update("t/x/1", Stage.REFINE, {"cpp/no-kernel": -1.0, "cpp/no-card": 1.0}, 0.9)
    context = choose(bank, start)
    assert (shown_ids(context, "nothing"), shown_ids(context, "trace")) == (["cpp/no-card"], ["old:t/tiled/0"])


def test_nothing_earns_the_reward_of_its_attempt_and_replays_exactly(tmp_path):
    def learn_all(path):
        policy = ValuePolicy(value_scope="bottleneck", warmup=1)
        with Bank.open(path, HASH, backend="cpp", run="r") as bank:
            for n, (state, attempt) in enumerate(journal):
                policy.learn(state, Attempt.model_validate_json(attempt.model_dump_json()), bank)
                assert bank.values(["cpp/no-kernel"], Stage.REFINE)["cpp/no-kernel"].visits == n + 1
            ids = ["cpp/no-kernel", "a", "r:t/relu/0"]
            return [bank.values(ids, Stage.REFINE, scope) for scope in ("", "cause:vector_work", "cause:launch")]

    start = make_start(("vector_work", 60.0), ("launch", 20.0))
    journal = []
    for n, reward in enumerate((0.4, -1.0, 0.2), start=1):
        refs = (ContextRef(id="cpp/no-kernel", role="nothing", q=0.0), ContextRef(id="a", role="bottleneck", q=0.0))
        result = make_start(("vector_work", 60.0 if n < 3 else 5.0), ("launch", 20.0), n=n)
        attempt = result.model_copy(update={"stage": Stage.REFINE, "start_point": start.id, "shown_items": refs, "reward": reward})
        journal.append((make_state(start, *(done for _, done in journal)), attempt))
    first, again, resumed = (learn_all(tmp_path / name) for name in ("a.db", "b.db", "c.db"))
    assert first == again == resumed
    assert first[0]["cpp/no-kernel"].visits == 3
    assert first[0]["cpp/no-kernel"] == first[0]["a"]


def test_value_of_nothing_travels_in_a_pack(tmp_path, bank):
    bank.update("t/x/0", Stage.REFINE, {"cpp/no-kernel": 1.0, "cuda/no-card": 1.0}, 0.3)
    export_pack(bank.path, tmp_path / "p.pack", PackFilters(backend="cpp"), ExportExclusions())
    import_pack_file(tmp_path / "new.db", tmp_path / "p.pack", HASH)
    with Bank.open(tmp_path / "new.db", HASH, backend="cpp", run="n") as new:
        values = new.values(["cpp/no-kernel", "cuda/no-card"], Stage.REFINE)
        assert values == {"cpp/no-kernel": ItemValue(0.3, 1), "cuda/no-card": ItemValue()}


# --- values per cause -------------------------------------------------------------------------------------------------------


def test_refinement_addresses_the_cause_whose_gain_fell_most():
    start = make_start(("vector_work", 60.0), ("launch", 20.0)).outcome
    assert addressed_cause(start, make_start(("vector_work", 58.0), ("launch", 4.0)).outcome) == "launch"
    assert addressed_cause(start, make_start(("vector_work", 58.0)).outcome) == "launch"
    assert addressed_cause(start, make_start(("vector_work", 70.0), ("launch", 20.0)).outcome) == "vector_work"
    assert addressed_cause(start, make_attempt(1, feasible=False).outcome) == "vector_work"
    assert addressed_cause(make_start().outcome, make_start().outcome) == "memory", "without opportunities the bottleneck"
    assert addressed_cause(make_attempt(0).outcome, make_start(("launch", 1.0)).outcome) == ""


def test_item_has_a_value_per_cause_that_is_pulled_to_its_overall_value(bank):
    policy = ValuePolicy(value_scope="bottleneck", alpha=1.0, shrinkage_visits=1.0, warmup=9)
    for n, (cause, reward) in enumerate((("vector_work", 1.0), ("launch", -0.5)), start=1):
        start = make_start((cause, 50.0))
        refinement = make_attempt(n, "relu", False, Stage.REFINE).model_copy(
            update={"start_point": start.id, "shown_items": (ContextRef(id="a", role="bottleneck"),), "reward": reward}
        )
        policy.learn(make_state(start), refinement, bank)
    overall = -0.5
    values = {cause: policy.q_values(["a"], Stage.REFINE, f"cause:{cause}", bank)["a"] for cause in ("vector_work", "launch", "spills")}
    assert values == {"vector_work": (1.0 + overall) / 2, "launch": (-0.5 + overall) / 2, "spills": overall}
    assert bank.values(["a"], Stage.REFINE, "activation")["a"] == ItemValue(), "families learn nothing"


def test_place_for_a_cause_is_filled_by_the_value_for_that_cause(bank):
    bank.add([card("one", causes=("vector_work", "launch")), card("two", causes=("vector_work", "launch"))])
    start = make_start(("launch", 50.0))
    first, second = (f"cpp/{name}" for name in ("one", "two"))
    bank.update("t/x/0", Stage.REFINE, {first: 0.0, second: 0.0}, 0.3)
    for n in range(8):
        bank.update(f"t/y/{n}", Stage.REFINE, {first: 0.5, second: -0.5}, 0.3, "cause:vector_work")
        bank.update(f"t/y/{n}", Stage.REFINE, {first: -0.5, second: 0.5}, 0.3, "cause:launch")
    assert shown_ids(choose(bank, start, value_scope="bottleneck"), "bottleneck") == [second]
    assert shown_ids(choose(bank, make_start(("vector_work", 50.0), n=1), value_scope="bottleneck"), "bottleneck") == [first]


# --- excerpts ---------------------------------------------------------------------------------------------------------------


def test_excerpt_shows_the_lines_around_names_with_their_numbers():
    excerpt = make_excerpt(TILED_CODE, ["TileLoop"])
    assert excerpt.splitlines()[0] == "... lines 97 to 109 of 201:"
    assert "TileLoop(8);" in excerpt
    assert make_excerpt("a();\nb();", ["b"]) == "a();\nb();"
    assert make_excerpt(TILED_CODE, ["Tile"]) == "", "part of a word is not the name"


def test_excerpt_is_the_largest_complete_block_that_fits():
    body = "\n".join(f"        int local_{n};" for n in range(20))
    loops = [f"    for (int i = 0; i < {n}; ++i) {{\n{body}\n        {name}(i);\n    }}" for n, name in enumerate(("Load", "TileLoop"))]
    code = "\n".join([FILLER, "void Process() {", *loops, "}", "void Other() {", "    TileLoop(0);", "}", FILLER])
    whole = make_excerpt(code, ["TileLoop", "Load"]).splitlines()
    assert (whole[0], whole[1], whole[-1]) == ("... lines 101 to 148 of 251:", "void Process() {", "}")
    block = make_excerpt(code, ["TileLoop", "local_3"], max_lines=30).splitlines()
    assert (block[1], block[-1]) == ("    for (int i = 0; i < 1; ++i) {", "    }")
    assert len(make_excerpt(code, ["TileLoop", "Load"], max_chars=700)) < 800


def test_excerpt_of_a_failure_shows_the_lines_that_the_verifier_names():
    assert "TileLoop(8);" in make_failure_excerpt(TILED_CODE, "kernel.cpp:101:3: error: no TileLoop")
    assert make_failure_excerpt(TILED_CODE, "3 of 64 elements differ") == ""


@given(st.lists(st.sampled_from(["a();", "Bb();", "Cc();", ""]), max_size=300), st.sets(st.sampled_from(["Bb", "Cc", "none"])))
def test_excerpt_is_never_longer_than_its_limit(lines, names):
    code = "\n".join(lines)
    shown = [line for line in make_excerpt(code, names, 30).splitlines() if not line.startswith("... lines")]
    assert len(shown) <= 30
    assert len(make_diff(code, "Bb();", 30).splitlines()) <= 31


def test_names_of_apis_are_found_in_the_code_of_a_card():
    assert list_code_names("Use `SetTail(m)` and `x`, not words.\n\n```cpp\npl.when(y)\n```") == ["SetTail", "pl.when"]


def test_child_is_shown_as_a_change_of_the_start_point(bank):
    start = make_start(("launch", 50.0), code=TILED_CODE)
    child = make_attempt(1, "relu", stage=Stage.REFINE, latency=200.0).model_copy(update={"start_point": start.id})
    child = child.model_copy(
        update={"candidate": child.candidate.model_copy(update={"files": {"kernel.cpp": TILED_CODE.replace("(8)", "(16)")}})}
    )
    for attempt in (start, child):
        bank.add(distill(make_task("relu"), attempt))
    context = ValuePolicy(epsilon=0, epsilon_end=0).choose(make_state(start, child), bank)
    assert context.start_point == start
    (entry,) = (entry for entry in context.items if entry.role == "child")
    assert "+TileLoop(16);" in entry.shown_code
    assert len(entry.shown_code) < len(TILED_CODE)


def test_context_of_an_older_journal_is_still_read():
    ref = ContextRef.model_validate_json('{"id": "a", "role": "variant", "q": 0.5}')
    assert ref.role == "variant"


def test_draft_shows_the_worked_example_that_fits_best_and_no_other_way_to_multiply(bank):
    long_text = "x" * 3000
    bank.add([card("matmul", "api", family="matmul"), card("by-hand", family="matmul", text=long_text)])
    bank.add([card(f"activation-{n}", family="activation") for n in range(3)])
    bank.add([card("epilogue", family="matmul", families=("softmax",), text=long_text), card("scan", family="scan", text=long_text)])
    task = make_task("relu").model_copy(update={"family": "fuse", "families": ("matmul", "softmax", "activation")})
    shown = shown_ids(ValuePolicy().choose(State(task=task), bank), "api")
    assert (len(shown), shown[1]) == (2, "cpp/epilogue"), "one card for the part that the example does not show"
    assert shown_ids(ValuePolicy(part_cards=0).choose(State(task=task), bank), "api") == ["cpp/matmul"]


@pytest.mark.parametrize(("flops", "shown"), [(1e9, ["cpp/by-hand"]), (1e11, ["cpp/halves", "cpp/library"])])
def test_draft_shows_the_cards_for_the_size_of_the_work(bank, flops, shown):
    long_text = "x" * 3000
    bank.add([card("matmul", "api", family="matmul"), card("halves", family="matmul", min_flops=2e10)])
    bank.add(
        [card("by-hand", family="matmul", text=long_text, max_flops=4e9), card("library", family="matmul", text=long_text, min_flops=4e9)]
    )
    task = make_task("relu").model_copy(update={"family": "matmul", "work": Work(flops=flops, bytes=1)})
    assert shown_ids(ValuePolicy().choose(State(task=task), bank), "api") == shown


def test_practice_item_from_a_kernel_is_found_by_its_cause_but_is_no_reference_card(bank):
    pair = card("pair", causes=("launch",), family="activation").model_copy(update={"id": "r:t/gelu/9", "task": "t/gelu"})
    bank.add([pair, card("tip", family="activation")])
    assert shown_ids(ValuePolicy().choose(make_state(), bank), "api") == ["cpp/tip"]
    assert shown_ids(choose(bank, make_start(("launch", 50.0))), "bottleneck") == [pair.id]


@pytest.mark.parametrize(
    "lines", [["  # generated", *["  y = load(a)"] * 10, *["z = 1"] * 60], ["   load(a)"] * 80, ["def f():", *["    load()"] * 4000]]
)
def test_excerpts_of_unusual_texts_end(lines):
    """Indented from the first line on, or one long block with a name in every line."""
    excerpt = make_excerpt("\n".join(lines), ["load"])
    assert "load" in excerpt
    assert len(excerpt) <= MAX_EXCERPT_CHARS


def test_excerpt_of_one_long_line_is_cut():
    assert len(make_excerpt("load(" + "a" * 50_000 + ")", ["load"])) <= MAX_EXCERPT_CHARS
