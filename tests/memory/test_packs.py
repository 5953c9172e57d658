"""Packs: memories that go to another bank with their values, and say where they come from."""

import hashlib
import json

import pytest
from bank_parts import HASH, as_before, learn, open_bank, standings
from engine_parts import engine, task
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_memory_bank import item

from evokernel.core.config import RunConfig
from evokernel.core.errors import UserError
from evokernel.core.protocols import ItemValue
from evokernel.core.records import Stage
from evokernel.core.run import Run
from evokernel.memory import provenance
from evokernel.memory.bank import Bank
from evokernel.memory.pack_file import Filters, first_line, read
from evokernel.memory.packs import Leaving, Moved, export, import_pack, unmatched
from evokernel.memory.revoke import revoke


def every_value(path):
    """Item, stage, scope, Q to the bit, visits."""
    with Bank.read(path) as archive:
        return sorted((*one[:3], one.q.hex(), one.visits) for one in archive.standings(scope=None))


def moved(header):
    return Moved(header.items, header.updates)


def body(file):
    return file.read_bytes().partition(b"\n")[2]


def test_a_pack_carries_items_and_values(path, tmp_path):
    assert moved(export(path, tmp_path / "pack.jsonl")) == Moved(14, 8)
    assert import_pack(tmp_path / "other.db", tmp_path / "pack.jsonl", HASH) == Moved(14, 8)
    assert every_value(tmp_path / "other.db") == every_value(path)
    with open_bank(tmp_path / "other.db", "b") as bank, open_bank(path, "b") as original:
        assert bank.search(task("relu").source, 99) == original.search(task("relu").source, 99)
    assert import_pack(tmp_path / "other.db", tmp_path / "pack.jsonl", HASH) == Moved(0, 0)
    assert every_value(tmp_path / "other.db") == every_value(path)


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
def test_values_are_the_same_to_the_bit_for_every_item_stage_and_scope(texts, updates, tmp_path_factory):
    """Whatever was learned, in whatever order, about items whose texts hold whatever characters."""
    here = tmp_path_factory.mktemp("bits")
    for run in ("a", "b"):
        with open_bank(here / "one.db", run) as bank:
            bank.add([item(f"i{n}", text=text) for n, text in enumerate(texts)])
            for who, attempt, of, stage, scope, reward, alpha in updates:
                if who == run:
                    bank.update(f"t/x/{attempt}", stage, {f"i{of}": reward}, alpha, scope)
    header = export(here / "one.db", here / "pack.jsonl")
    import_pack(here / "two.db", here / "pack.jsonl", HASH)
    assert every_value(here / "two.db") == every_value(here / "one.db")
    assert export(here / "two.db", here / "again.jsonl").sha256 == header.sha256
    assert body(here / "again.jsonl") == body(here / "pack.jsonl")


def test_what_a_run_learned_is_the_same_elsewhere(tmp_path):
    """With values by family, too, and drafts and refinements."""
    first = engine(tmp_path / "run", budget=4, state="family")
    list(first.attempts())
    first.close()
    export(tmp_path / "run" / "memory.db", tmp_path / "pack.jsonl")
    import_pack(tmp_path / "other.db", tmp_path / "pack.jsonl", HASH)
    values = every_value(tmp_path / "other.db")
    assert {(stage, scope) for _, stage, scope, *_ in values} >= {("draft", "activation"), ("refine", "activation"), ("draft", "")}
    assert values == every_value(tmp_path / "run" / "memory.db")


def test_equal_content_has_an_equal_hash_and_other_content_another(path, tmp_path):
    one, two = (export(path, tmp_path / f"{n}.jsonl") for n in range(2))
    assert one.sha256 == two.sha256 == hashlib.sha256(body(tmp_path / "0.jsonl")).hexdigest()
    assert export(path, tmp_path / "2.jsonl", Filters(kinds=("practice",))).sha256 != one.sha256
    with open_bank(path, "b") as bank:
        learn(bank, "gelu", 2, ["cpp/tip"])
    assert export(path, tmp_path / "3.jsonl").sha256 != one.sha256


def test_a_pack_without_a_task_holds_nothing_learned_on_it(path, tmp_path):
    for without in ("t/relu", "*/re*"):
        assert moved(export(path, tmp_path / "pack.jsonl", Filters(without=(without,)))) == Moved(6, 2)
        assert b"relu" not in body(tmp_path / "pack.jsonl")
    import_pack(tmp_path / "other.db", tmp_path / "pack.jsonl", HASH)
    assert standings(tmp_path / "other.db") == {("cpp/tip", "draft"): ItemValue(-0.5 + 0.5 * 1.5, 2)}


def test_a_part_of_a_bank(path, tmp_path):
    def part(**filters):
        return moved(export(path, tmp_path / "pack.jsonl", Filters(**filters)))

    assert part(kinds=("practice",)) == Moved(1, 4)
    assert part(backend="cuda") == Moved(0, 0)
    assert part(tasks=("t/gelu",)) == part(without=("t/relu",)) == Moved(6, 2)
    assert part(suites=("t",)) == part(tasks=("t/*",)) == part() == Moved(14, 8)
    assert part(suites=("t",), without=("t/gelu",)) == part(tasks=("t/relu", "u/x")) == Moved(10, 4)
    assert part(without=("t",)) == Moved(2, 0)
    assert part(suites=("u",)) == Moved(2, 0), "seed knowledge is of no task"
    asked = Filters(tasks=("t/rel",), suites=("t", "u"), without=("t/gel", "t"))
    assert [name for name, _ in unmatched(path, asked)] == ["t/rel", "u", "t/gel"]


def test_items_that_stay_behind_take_along_what_was_learned_with_them(path, tmp_path):
    leaving = Leaving(items=frozenset({"a:t/gelu/1", "a:t/gelu/1/note"}))
    assert moved(export(path, tmp_path / "pack.jsonl", leaving=leaving)) == Moved(12, 6)
    assert b"t/gelu/1" not in body(tmp_path / "pack.jsonl")


def test_a_header_says_where_it_comes_from(tmp_path):
    """Also when the folders of its runs are gone, and after a further move."""
    config = RunConfig(id="a", seed=7, backend={"name": "cpp"}, generator={"name": "llm", "model": "m-1", "key": "none"})
    facts = provenance.facts(config, {"versions": {"evokernel": "1", "compiler": "g++ 12"}, "hardware": {"cores": "2"}})
    with Bank.open(tmp_path / "one.db", HASH, backend="cpp", run="a", folder=tmp_path / "gone", facts=facts) as bank:
        bank.add([item("cpp/tip", "practice")])
        learn(bank, "gelu", 0, ["cpp/tip"])
    header = export(tmp_path / "one.db", tmp_path / "pack.jsonl", Filters(backend="cpp"))
    (origin,) = header.runs
    assert (origin.run, origin.items, origin.updates, origin.seed, origin.model) == ("a", 2, 1, 7, "m-1")
    assert origin.versions == {"evokernel": "1", "compiler": "g++ 12"}
    assert header.tasks == {"t/gelu": (hashlib.sha256(task("gelu").source.encode()).hexdigest(),)}
    assert (header.kinds, header.backends, header.filters.backend) == ({"experience": 1, "practice": 1, "trace": 1}, {"cpp": 3}, "cpp")
    assert '"key"' not in (tmp_path / "pack.jsonl").read_text().splitlines()[0], "settings of a part are not told"
    import_pack(tmp_path / "two.db", tmp_path / "pack.jsonl", HASH)
    assert export(tmp_path / "two.db", tmp_path / "again.jsonl").runs == header.runs
    with Bank.read(tmp_path / "two.db") as archive:
        assert archive.stats().packs == {header.sha256: 3}
        assert archive.get("cpp/tip").pack == header.sha256
    with Bank.read(tmp_path / "one.db") as archive:
        assert archive.stats().packs == {}
    assert read(tmp_path / "pack.jsonl").header.model_copy(update={"seal": ""}) == header


@pytest.mark.parametrize("version", [1, 2, 3])
def test_older_banks_are_read_exported_and_brought_up(file, tmp_path, version):
    now = export(file, tmp_path / "now.jsonl").sha256
    as_before(file, version)
    header = export(file, tmp_path / "before.jsonl")
    assert header.sha256 == now
    (origin,) = header.runs
    assert (origin.backend, origin.versions, origin.seed) == ("cpp", None, None), "what nobody noted is absent"
    assert "seed" not in json.loads(first_line(header))["runs"][0]
    with Bank.read(file) as archive:
        assert archive.stats().packs == {}
        assert archive.get("cpp/tip").pack == ""
    values = every_value(file)
    with open_bank(file, "later") as bank:
        assert len(bank.search("x", 99)) == 14
    assert every_value(file) == values
    assert import_pack(file, tmp_path / "before.jsonl", HASH) == Moved(0, 0)


def test_an_older_bank_asks_the_folders_of_its_runs(file, tmp_path):
    config = RunConfig(id="a", seed=3, backend={"name": "cpp"})
    Run.create(tmp_path / "run", config, [task("gelu")], {"versions": {"compiler": "g++ 11"}, "hardware": {}})
    with Bank.open(file, HASH, backend="cpp", run="a", folder=tmp_path / "run"):
        pass
    as_before(file, 2)
    (origin,) = export(file, tmp_path / "pack.jsonl").runs
    assert (origin.seed, origin.versions, origin.hardware) == (3, {"compiler": "g++ 11"}, None)


def test_the_format_without_a_header_is_still_read(path, tmp_path):
    export(path, tmp_path / "new.jsonl")
    (tmp_path / "old.jsonl").write_bytes(b'{"evokernel_memory": 1}\n' + body(tmp_path / "new.jsonl"))
    pack = read(tmp_path / "old.jsonl")
    assert (pack.is_signed, pack.fault, len(pack.items)) == (False, "", 14)
    assert import_pack(tmp_path / "other.db", tmp_path / "old.jsonl", HASH) == Moved(14, 8)
    assert every_value(tmp_path / "other.db") == every_value(path)


def cut_line(data):
    return data[:-40]


def cut_lines(data):
    return b"\n".join(data.split(b"\n")[:6]) + b"\n"


def other_reward(data):
    return data.replace(b'"reward": 1.0', b'"reward": 0.9', 1)


def other_words(data):
    return data.replace(b"correct", b"Correct", 1)


def other_origin(data):
    return data.replace(b'"backend": "cpp", "run": "a"', b'"backend": "cuda", "run": "a"', 1)


def other_count(data):
    return data.replace(b'"items": 14', b'"items": 15', 1)


@pytest.mark.parametrize("change", [cut_line, cut_lines, other_reward, other_words, other_origin, other_count])
def test_a_pack_that_was_changed_is_refused_in_one_line(path, tmp_path, change):
    pack = tmp_path / "pack.jsonl"
    export(path, pack)
    data = pack.read_bytes()
    assert change(data) != data
    pack.write_bytes(change(data))
    with pytest.raises(UserError, match=r"not what was exported.*--unsigned") as refused:
        import_pack(tmp_path / "other.db", pack, HASH)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "other.db").exists()
    if change is not cut_line:
        assert import_pack(tmp_path / "other.db", pack, HASH, unsigned=True).items > 0


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_changed_byte_goes_unnoticed(data, path, tmp_path):
    pack = tmp_path / "pack.jsonl"
    export(path, pack)
    good = bytearray(pack.read_bytes())
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] ^= data.draw(st.integers(1, 255))
    pack.write_bytes(good)
    with pytest.raises(UserError) as refused:
        read(pack)
    assert "\n" not in str(refused.value)


WRONG = ["{not json", '{"item": {"id": 1}}', '{"surprise": 1}', '{"update": ["a", "t/x/0", "i", "draft", "", 1.0, 2.0]}']


@pytest.mark.parametrize("line", [*WRONG, '{"update": ["a", "t/x/0", "i", "draft", "", NaN, 0.5]}'])
def test_a_line_that_is_none_changes_nothing(path, tmp_path, line):
    pack = tmp_path / "pack.jsonl"
    export(path, pack)
    lines = pack.read_text().splitlines()
    pack.write_text("\n".join([*lines[:2], line, *lines[3:]]) + "\n")
    with pytest.raises(UserError, match="line 3"):
        import_pack(tmp_path / "other.db", pack, HASH, unsigned=True)
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"item": null}\n', "not a memory pack"),
        ("", "not a memory pack"),
        ("[1]\n", "not a memory pack"),
        ('{"evokernel_memory": 4, "news": 1}\n', "newer evokernel"),
        ('{"evokernel_memory": 2, "news": 1}\n', "line 1"),
        ('{"evokernel_memory": 2}\n', "not what was exported"),
    ],
)
def test_not_a_pack(tmp_path, text, says):
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(UserError, match=says):
        import_pack(tmp_path / "bank.db", tmp_path / "x.jsonl", HASH)
    with pytest.raises(UserError, match="cannot read"):
        import_pack(tmp_path / "bank.db", tmp_path / "none.jsonl", HASH)


def test_a_pack_brings_nothing_back_that_was_revoked(path, tmp_path):
    """Nor the same code under the name of another run."""
    with open_bank(tmp_path / "other.db", "b") as bank:
        learn(bank, "relu", 0, [])
    export(tmp_path / "other.db", tmp_path / "copy.jsonl")
    revoke(path, "a:t/relu/0")
    assert import_pack(path, tmp_path / "copy.jsonl", HASH).items == 0


def test_export_to_nowhere(path, tmp_path):
    with pytest.raises(UserError, match="cannot write"):
        export(path, tmp_path / "no" / "such" / "folder.jsonl")
