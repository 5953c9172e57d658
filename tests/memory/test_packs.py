"""Memory packs transfer items with their values to another bank, with provenance."""

import hashlib
import json

import pytest
from bank_parts import HASH, assert_error, learn, load_stage_values, open_bank, set_schema_version
from engine_parts import ArithmeticExecutor, make_engine, make_task
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_memory_bank import item

from evokernel.core.config import RunConfig
from evokernel.core.errors import UserError
from evokernel.core.protocols import ItemValue
from evokernel.core.records import GateResult, Outcome, Stage
from evokernel.core.run import Run
from evokernel.memory import provenance
from evokernel.memory.bank import Bank
from evokernel.memory.pack_file import PackFilters, format_header, read_pack
from evokernel.memory.packs import ExportExclusions, ImportResult, export_pack, find_unmatched_filters, import_pack_file
from evokernel.memory.revoke import revoke


def load_exact_values(path):
    """Item, stage, scope, Q to the bit, visits."""
    with Bank.open_reader(path) as reader:
        return sorted((*one[:3], one.q.hex(), one.visits) for one in reader.list_values(scope=None))


def import_counts(header):
    return ImportResult(header.items, header.updates)


def read_body(file):
    return file.read_bytes().partition(b"\n")[2]


def test_pack_transfers_items_and_values(path, tmp_path):
    assert import_counts(export_pack(path, tmp_path / "pack.jsonl")) == ImportResult(14, 8)
    assert import_pack_file(tmp_path / "other.db", tmp_path / "pack.jsonl", HASH) == ImportResult(14, 8)
    assert load_exact_values(tmp_path / "other.db") == load_exact_values(path)
    with open_bank(tmp_path / "other.db", "b") as bank, open_bank(path, "b") as original:
        assert bank.search(make_task("relu").source, 99) == original.search(make_task("relu").source, 99)
    assert import_pack_file(tmp_path / "other.db", tmp_path / "pack.jsonl", HASH) == ImportResult(0, 0)
    assert load_exact_values(tmp_path / "other.db") == load_exact_values(path)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
UPDATES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(0, 30),
        st.integers(0, 3),
        st.sampled_from(list(Stage)),
        st.sampled_from(["", "activation", "matmul"]),
        st.floats(-1e6, 1e6, allow_nan=False),
        st.floats(1e-6, 1.0),
    ),
    max_size=40,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXTS, min_size=4, max_size=4), updates=UPDATES)
def test_values_are_bit_identical_for_every_item_stage_and_scope(texts, updates, tmp_path_factory):
    """For arbitrary updates in any order, and items whose texts contain arbitrary characters."""
    here = tmp_path_factory.mktemp("bits")
    for run in ("a", "b"):
        with open_bank(here / "one.db", run) as bank:
            bank.add([item(f"i{n}", text=text) for n, text in enumerate(texts)])
            for who, attempt, of, stage, scope, reward, alpha in updates:
                if who == run:
                    bank.update(f"t/x/{attempt}", stage, {f"i{of}": reward}, alpha, scope)
    header = export_pack(here / "one.db", here / "pack.jsonl")
    import_pack_file(here / "two.db", here / "pack.jsonl", HASH)
    assert load_exact_values(here / "two.db") == load_exact_values(here / "one.db")
    assert export_pack(here / "two.db", here / "again.jsonl").sha256 == header.sha256
    assert read_body(here / "again.jsonl") == read_body(here / "pack.jsonl")


class FirstDraftFails(ArithmeticExecutor):
    """Every task needs a second draft, whose context contains items of the first drafts."""

    def verify(self, job):
        if job.candidate.files["kernel.cpp"].split()[0].endswith("/0"):
            return Outcome(gates=(GateResult(gate="build", passed=False, reason="compile_error", detail="no"),))
        return super().verify(job)


def test_values_of_a_run_survive_export_and_import(tmp_path):
    """Also values by family, of drafts and of refinements."""
    first = make_engine(tmp_path / "run", budget=4, value_scope="family", executor=FirstDraftFails())
    list(first.make_attempts())
    first.close()
    export_pack(tmp_path / "run" / "memory.db", tmp_path / "pack.jsonl")
    import_pack_file(tmp_path / "other.db", tmp_path / "pack.jsonl", HASH)
    values = load_exact_values(tmp_path / "other.db")
    assert {(stage, scope) for _, stage, scope, *_ in values} >= {("draft", "activation"), ("refine", "activation"), ("draft", "")}
    assert values == load_exact_values(tmp_path / "run" / "memory.db")


def test_hash_depends_only_on_the_content(path, tmp_path):
    one, two = (export_pack(path, tmp_path / f"{n}.jsonl") for n in range(2))
    assert one.sha256 == two.sha256 == hashlib.sha256(read_body(tmp_path / "0.jsonl")).hexdigest()
    assert export_pack(path, tmp_path / "2.jsonl", PackFilters(kinds=("practice",))).sha256 != one.sha256
    with open_bank(path, "b") as bank:
        learn(bank, "gelu", 2, ["cpp/tip"])
    assert export_pack(path, tmp_path / "3.jsonl").sha256 != one.sha256


def test_excluded_task_leaves_no_items_or_updates(path, tmp_path):
    for without in ("t/relu", "*/re*"):
        assert import_counts(export_pack(path, tmp_path / "pack.jsonl", PackFilters(exclude=(without,)))) == ImportResult(6, 2)
        assert b"relu" not in read_body(tmp_path / "pack.jsonl")
    import_pack_file(tmp_path / "other.db", tmp_path / "pack.jsonl", HASH)
    assert load_stage_values(tmp_path / "other.db") == {("cpp/tip", "draft"): ItemValue(-0.5 + 0.5 * 1.5, 2)}


def test_filters_select_parts_of_a_bank(path, tmp_path):
    def part(**filters):
        return import_counts(export_pack(path, tmp_path / "pack.jsonl", PackFilters(**filters)))

    assert part(kinds=("practice",)) == ImportResult(1, 4)
    assert part(backend="cuda") == ImportResult(0, 0)
    assert part(tasks=("t/gelu",)) == part(exclude=("t/relu",)) == ImportResult(6, 2)
    assert part(suites=("t",)) == part(tasks=("t/*",)) == part() == ImportResult(14, 8)
    assert part(suites=("t",), exclude=("t/gelu",)) == part(tasks=("t/relu", "u/x")) == ImportResult(10, 4)
    assert part(exclude=("t",)) == ImportResult(2, 0)
    assert part(suites=("u",)) == ImportResult(2, 0), "seed knowledge belongs to no task"
    filters = PackFilters(tasks=("t/rel",), suites=("t", "u"), exclude=("t/gel", "t"))
    assert [name for name, _ in find_unmatched_filters(path, filters)] == ["t/rel", "u", "t/gel"]


def test_excluded_items_take_their_updates_with_them(path, tmp_path):
    exclusions = ExportExclusions(items=frozenset({"a:t/gelu/1", "a:t/gelu/1/note"}))
    assert import_counts(export_pack(path, tmp_path / "pack.jsonl", exclusions=exclusions)) == ImportResult(12, 6)
    assert b"t/gelu/1" not in read_body(tmp_path / "pack.jsonl")


def test_header_contains_the_provenance(tmp_path):
    """Also if the run folders no longer exist, and after a second transfer."""
    config = RunConfig(id="a", seed=7, backend={"name": "cpp"}, generator={"name": "llm", "model": "m-1", "key": "none"})
    metadata = provenance.make_metadata(config, {"versions": {"evokernel": "1", "compiler": "g++ 12"}, "hardware": {"cores": "2"}})
    with Bank.open(tmp_path / "one.db", HASH, backend="cpp", run="a", folder=tmp_path / "gone", metadata=metadata) as bank:
        bank.add([item("cpp/tip", "practice")])
        learn(bank, "gelu", 0, ["cpp/tip"])
    header = export_pack(tmp_path / "one.db", tmp_path / "pack.jsonl", PackFilters(backend="cpp"))
    (run,) = header.runs
    assert (run.run, run.items, run.updates, run.seed, run.model) == ("a", 2, 1, 7, "m-1")
    assert run.versions == {"evokernel": "1", "compiler": "g++ 12"}
    assert header.tasks == {"t/gelu": (hashlib.sha256(make_task("gelu").source.encode()).hexdigest(),)}
    assert (header.kinds, header.backends, header.filters.backend) == ({"experience": 1, "practice": 1, "trace": 1}, {"cpp": 3}, "cpp")
    assert '"key"' not in (tmp_path / "pack.jsonl").read_text().splitlines()[0], "the header does not contain plug-in settings"
    import_pack_file(tmp_path / "two.db", tmp_path / "pack.jsonl", HASH)
    assert export_pack(tmp_path / "two.db", tmp_path / "again.jsonl").runs == header.runs
    with Bank.open_reader(tmp_path / "two.db") as reader:
        assert reader.compute_stats().packs == {header.sha256: 3}
        assert reader.get_item("cpp/tip").pack == header.sha256
    with Bank.open_reader(tmp_path / "one.db") as reader:
        assert reader.compute_stats().packs == {}
    assert read_pack(tmp_path / "pack.jsonl").header.model_copy(update={"header_sha256": ""}) == header


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_bank_of_an_older_schema_is_rejected_by_export_and_open(path, tmp_path, version):
    export_pack(path, tmp_path / "pack.jsonl")
    set_schema_version(path, version)
    actions = (
        lambda: export_pack(path, tmp_path / "other.jsonl"),
        lambda: import_pack_file(path, tmp_path / "pack.jsonl", HASH),
        lambda: Bank.open_reader(path),
        lambda: open_bank(path, "later"),
    )
    for action in actions:
        assert_error(UserError, action, "older evokernel", f"schema {version}", "--memory OTHER")
    assert not (tmp_path / "other.jsonl").exists()


def test_unrecorded_metadata_is_absent_from_the_header(file, tmp_path):
    header = export_pack(file, tmp_path / "pack.jsonl")
    (run,) = header.runs
    assert (run.backend, run.versions, run.seed) == ("cpp", None, None)
    assert "seed" not in json.loads(format_header(header))["runs"][0]
    with Bank.open_reader(file) as reader:
        assert reader.compute_stats().packs == {}
        assert reader.get_item("cpp/tip").pack == ""
    values = load_exact_values(file)
    with open_bank(file, "later") as bank:
        assert len(bank.search("x", 99)) == 14
    assert load_exact_values(file) == values
    assert import_pack_file(file, tmp_path / "pack.jsonl", HASH) == ImportResult(0, 0)


def test_missing_metadata_is_read_from_the_run_folder(file, tmp_path):
    config = RunConfig(id="a", seed=3, backend={"name": "cpp"})
    Run.create(tmp_path / "run", config, [make_task("gelu")], {"versions": {"compiler": "g++ 11"}, "hardware": {}})
    with Bank.open(file, HASH, backend="cpp", run="a", folder=tmp_path / "run"):
        pass
    (run,) = export_pack(file, tmp_path / "pack.jsonl").runs
    assert (run.seed, run.versions, run.hardware) == (3, {"compiler": "g++ 11"}, None)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pack_of_an_older_format_is_rejected(path, tmp_path, version):
    export_pack(path, tmp_path / "new.jsonl")
    header = json.loads((tmp_path / "new.jsonl").read_text().splitlines()[0])
    for fields in ({}, header):
        first_line = json.dumps({**fields, "evokernel_memory": version}).encode() + b"\n"
        (tmp_path / "old.jsonl").write_bytes(first_line + read_body(tmp_path / "new.jsonl"))
        for allow_modified in (False, True):
            assert_error(
                UserError,
                lambda allow_modified=allow_modified: import_pack_file(tmp_path / "other.db", tmp_path / "old.jsonl", HASH, allow_modified),
                "older evokernel",
                f"format {version}",
                "export a new pack",
            )
    assert not (tmp_path / "other.db").exists()


def truncate_last_line(data):
    return data[:-40]


def drop_lines(data):
    return b"\n".join(data.split(b"\n")[:6]) + b"\n"


def change_reward(data):
    return data.replace(b'"reward": 1.0', b'"reward": 0.9', 1)


def change_text(data):
    return data.replace(b"correct", b"Correct", 1)


def change_provenance(data):
    return data.replace(b'"backend": "cpp", "run": "a"', b'"backend": "cuda", "run": "a"', 1)


def change_count(data):
    return data.replace(b'"items": 14', b'"items": 15', 1)


@pytest.mark.parametrize("change", [truncate_last_line, drop_lines, change_reward, change_text, change_provenance, change_count])
def test_changed_pack_is_rejected_in_one_line(path, tmp_path, change):
    pack = tmp_path / "pack.jsonl"
    export_pack(path, pack)
    data = pack.read_bytes()
    assert change(data) != data
    pack.write_bytes(change(data))
    with pytest.raises(UserError, match=r"differs from the exported pack.*--allow-modified") as caught:
        import_pack_file(tmp_path / "other.db", pack, HASH)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "other.db").exists()
    if change is not truncate_last_line:
        assert import_pack_file(tmp_path / "other.db", pack, HASH, allow_modified=True).items > 0


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_changed_byte_is_detected(data, path, tmp_path):
    pack = tmp_path / "pack.jsonl"
    export_pack(path, pack)
    good = bytearray(pack.read_bytes())
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] ^= data.draw(st.integers(1, 255))
    pack.write_bytes(good)
    with pytest.raises(UserError) as caught:
        read_pack(pack)
    assert "\n" not in str(caught.value)


WRONG = ["{not json", '{"item": {"id": 1}}', '{"surprise": 1}', '{"update": ["a", "t/x/0", "i", "draft", "", 1.0, 2.0]}']


@pytest.mark.parametrize("line", [*WRONG, '{"update": ["a", "t/x/0", "i", "draft", "", NaN, 0.5]}'])
def test_invalid_line_is_rejected_and_nothing_is_imported(path, tmp_path, line):
    pack = tmp_path / "pack.jsonl"
    export_pack(path, pack)
    lines = pack.read_text().splitlines()
    pack.write_text("\n".join([*lines[:2], line, *lines[3:]]) + "\n")
    with pytest.raises(UserError, match="line 3"):
        import_pack_file(tmp_path / "other.db", pack, HASH, allow_modified=True)
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"item": null}\n', "not a memory pack"),
        ("", "not a memory pack"),
        ("[1]\n", "not a memory pack"),
        ('{"evokernel_memory": 5, "news": 1}\n', "newer evokernel"),
        ('{"evokernel_memory": 4, "news": 1}\n', "line 1"),
        ('{"evokernel_memory": 4}\n', "differs from the exported pack"),
    ],
)
def test_file_that_is_not_a_pack_is_rejected(tmp_path, text, says):
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(UserError, match=says):
        import_pack_file(tmp_path / "bank.db", tmp_path / "x.jsonl", HASH)
    with pytest.raises(UserError, match="cannot read"):
        import_pack_file(tmp_path / "bank.db", tmp_path / "none.jsonl", HASH)


def test_import_skips_revoked_code_of_another_run(path, tmp_path):
    """The bank rejects the same code under the name of another run."""
    with open_bank(tmp_path / "other.db", "b") as bank:
        learn(bank, "relu", 0, [])
    export_pack(tmp_path / "other.db", tmp_path / "copy.jsonl")
    revoke(path, "a:t/relu/0")
    assert import_pack_file(path, tmp_path / "copy.jsonl", HASH).items == 0


def test_export_to_a_missing_folder_is_reported(path, tmp_path):
    with pytest.raises(UserError, match="cannot write"):
        export_pack(path, tmp_path / "no" / "such" / "folder.jsonl")
