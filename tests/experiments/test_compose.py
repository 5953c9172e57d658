"""From settings to an engine: what can be refused is refused before anything is made."""

import pytest
from engine_parts import task

from evokernel.app import factory
from evokernel.core.config import RunConfig, resolve_config
from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin


def cpp(*sets: str) -> RunConfig:
    """Settings of a run in C++, which these tests are not about."""
    return resolve_config(None, ["backend=cpp", *sets])


@pytest.fixture(autouse=True)
def two_tasks(monkeypatch, tmp_path):
    monkeypatch.setattr(factory, "load", lambda spec: [task("relu"), task("gelu")])
    monkeypatch.chdir(tmp_path)


def test_a_bank_that_cannot_be_used_leaves_no_run_behind(tmp_path):
    (tmp_path / "evokernel-memory.db").write_text("this is not a database, but it is long enough to look at")
    with pytest.raises(UserError, match="memory"):
        factory.create_engine(cpp())
    assert not (tmp_path / "runs").exists()


def test_a_name_the_bank_knows_is_not_used_again(tmp_path):
    first = factory.create_engine(cpp("id=one", "clock=synthetic", "budget=1"), tmp_path / "a")
    first.memory.add(first.distill(first.run.tasks[0], made(first), ()))
    first.close()
    with pytest.raises(UserError, match="already holds a run called 'one'"):
        factory.create_engine(cpp("id=one"), tmp_path / "b")
    assert not (tmp_path / "b").exists()


def made(engine):
    from engine_parts import attempt

    return attempt(0, name="relu", run=engine.run.config.id)


def test_another_bank_under_a_begun_run_is_noticed(tmp_path):
    first = factory.create_engine(cpp("id=one"), tmp_path / "a")
    first.run.journal.append(made(first))
    first.close()
    (tmp_path / "evokernel-memory.db").unlink()
    with pytest.raises(UserError, match="not the bank"):
        factory.resume_engine(tmp_path / "a")


def test_what_a_run_was_begun_with_stays(tmp_path):
    factory.create_engine(cpp("id=one"), tmp_path / "a").close()
    with pytest.raises(UserError, match="'memory' cannot change"):
        factory.resume_engine(tmp_path / "a", ["memory=other.db"])
    again = factory.resume_engine(tmp_path / "a", ["budget=99"])
    assert (again.run.config.budget, factory.Run.open(tmp_path / "a").config.budget) == (99, 99)
    again.close()


def test_what_a_run_is_gone_on_with_is_added_to_what_it_was_begun_with(tmp_path, monkeypatch):
    factory.create_engine(cpp("id=one", "budget=3"), tmp_path / "a").close()
    before = (tmp_path / "a" / "run.toml").read_text()
    factory.resume_engine(tmp_path / "a").close()
    assert (tmp_path / "a" / "run.toml").read_text() == before, "the same machine"
    (begun,) = factory.Run.open(tmp_path / "a").environments()
    for machine in ("other", "other", "third", begun["hardware"]["machine"]):
        monkeypatch.setattr(factory, "hardware", lambda machine=machine: {**begun["hardware"], "machine": machine})
        factory.resume_engine(tmp_path / "a").close()
    run = factory.Run.open(tmp_path / "a")
    assert run.environments()[0] == begun
    assert [making["hardware"]["machine"] for making in run.environments()[1:]] == ["other", "third"]
    assert run.environment_summary()["machine"] == f"{begun['hardware']['machine']}, then other, then third"
    assert run.environment_summary()["python"] == begun["versions"]["python"]
    assert resolve_config(tmp_path / "a" / "run.toml").budget == 3, "its settings still start a new one"


def test_the_settings_of_an_earlier_run_start_a_new_one(tmp_path):
    factory.create_engine(cpp("id=one", "budget=3", "policy.epsilon=0.5"), tmp_path / "a").close()
    config = resolve_config(tmp_path / "a" / "run.toml")
    assert (config.budget, config.plugin_settings("policy"), config.id) == (3, {"epsilon": 0.5}, "")


def test_a_task_larger_than_the_machine_is_refused(tmp_path, monkeypatch):
    small = task("relu")
    tensor = small.signature.inputs[0].model_copy(update={"shape": (1 << 20, 1 << 20)})
    huge = small.model_copy(update={"signature": small.signature.model_copy(update={"inputs": (tensor,)})})
    monkeypatch.setattr(factory, "load", lambda spec: [small, huge])
    with pytest.raises(UserError, match=r"t/relu needs about .* GB"):
        factory.create_engine(cpp())


@pytest.mark.parametrize(
    ("kind", "name", "settings", "says"),
    [
        ("policy", "value", {"epsilon": "abc"}, "policy.epsilon = 'abc' must be a number"),
        ("policy", "value", {"items": 2.5}, "must be a whole number"),
        ("policy", "passk", {"bundle": 1}, "must be true or false"),
        ("backend", "cpp", {"threads": "two"}, "backend.threads = 'two' must be a whole number"),
        ("backend", "cpp", {"compiler": 3}, "must be a text"),
    ],
)
def test_a_setting_of_the_wrong_kind_is_named(kind, name, settings, says):
    with pytest.raises(UserError, match=says):
        make_plugin(kind, name, **settings)


LACKING = "no compiler for TPUs: pip install it"


def lack(monkeypatch, *backends):
    """Makes shipped backends unusable."""
    for name in backends:
        monkeypatch.setattr(type(make_plugin("backend", name)), "missing", lambda self: LACKING)


def test_without_a_choice_another_backend_stands_in_for_the_default(monkeypatch, tmp_path):
    if make_plugin("backend", "cpp").missing():
        pytest.skip("no C++ compiler")
    lack(monkeypatch, "pallas")
    config, why = factory.with_working_backend(resolve_config(None, ["id=one"]))
    assert (config.backend, why) == ({"name": "cpp"}, f"backend 'pallas' cannot work here: {LACKING}")
    factory.create_engine(config, tmp_path / "a").close()
    assert factory.Run.open(tmp_path / "a").config.backend == {"name": "cpp"}


def test_a_default_that_works_is_used(monkeypatch):
    monkeypatch.setattr(type(make_plugin("backend", "pallas")), "missing", lambda self: None)
    assert factory.with_working_backend(resolve_config(None)) == (resolve_config(None), "")


def test_what_was_chosen_is_never_replaced(monkeypatch, tmp_path):
    lack(monkeypatch, "pallas")
    (tmp_path / "mine.toml").write_text('[backend]\nname = "pallas"\n')
    for config in (
        resolve_config(None, backend="pallas"),
        resolve_config(None, ["backend.chip=v6e"]),
        resolve_config(tmp_path / "mine.toml"),
    ):
        assert factory.with_working_backend(config) == (config, "")
        with pytest.raises(UserError, match=LACKING):
            factory.create_engine(config)


def test_where_nothing_works_the_default_is_what_is_named(monkeypatch):
    lack(monkeypatch, "pallas", "cpp")
    config, why = factory.with_working_backend(resolve_config(None))
    assert (config.plugin_name("backend"), why) == ("pallas", "")
