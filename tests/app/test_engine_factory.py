"""Building an engine from settings: errors are reported before anything is created."""

from types import SimpleNamespace

import pytest
from engine_parts import make_attempt, make_task

from evokernel.app import factory
from evokernel.app.factory import load_sized_tasks
from evokernel.backends.gpu.backend import GpuBackend
from evokernel.backends.gpu.devices import Device
from evokernel.core import config as config_module
from evokernel.core.config import RunConfig, resolve_config
from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.suites.loader import find_task_files


def cpp(*sets: str) -> RunConfig:
    """Return the settings of a C++ run."""
    return resolve_config(None, ["backend=cpp", *sets])


@pytest.fixture(autouse=True)
def two_tasks(monkeypatch, tmp_path):
    monkeypatch.setattr(factory, "load_sized_tasks", lambda config, spec: [make_task("relu"), make_task("gelu")])
    monkeypatch.chdir(tmp_path)


def test_unusable_bank_leaves_no_run_folder(tmp_path):
    (tmp_path / "evokernel-memory.db").write_text("this is not a database, but it is long enough to look at")
    with pytest.raises(UserError, match="memory"):
        factory.create_engine(cpp())
    assert not (tmp_path / "runs").exists()


def test_refused_run_folder_leaves_no_bank(tmp_path):
    factory.create_engine(cpp("memory=other.db"), tmp_path / "a").close()
    with pytest.raises(UserError, match=r"already contains a run\. Resume it"):
        factory.create_engine(cpp(), tmp_path / "a")
    assert not (tmp_path / "evokernel-memory.db").exists()


def test_run_id_in_the_bank_is_not_reused(tmp_path):
    first = factory.create_engine(cpp("id=one", "clock=synthetic", "budget=1"), tmp_path / "a")
    first.memory.add(first.distill(first.run.tasks[0], first_attempt(first), ()))
    first.close()
    with pytest.raises(UserError, match="already contains a run with the id 'one'"):
        factory.create_engine(cpp("id=one"), tmp_path / "b")
    assert not (tmp_path / "b").exists()


def first_attempt(engine):
    return make_attempt(0, name="relu", run=engine.run.config.id)


def test_replaced_bank_is_refused_on_resume(tmp_path):
    first = factory.create_engine(cpp("id=one"), tmp_path / "a")
    first.run.journal.append(first_attempt(first))
    first.close()
    (tmp_path / "evokernel-memory.db").unlink()
    with pytest.raises(UserError, match="started from a different memory bank"):
        factory.resume_engine(tmp_path / "a")


def test_settings_of_a_started_run_are_fixed(tmp_path):
    factory.create_engine(cpp("id=one"), tmp_path / "a").close()
    with pytest.raises(UserError, match="'memory' cannot change"):
        factory.resume_engine(tmp_path / "a", ["memory=other.db"])
    resumed = factory.resume_engine(tmp_path / "a", ["budget=99"])
    assert (resumed.run.config.budget, factory.Run.open(tmp_path / "a").config.budget) == (99, 99)
    resumed.close()


def test_new_environment_of_a_resumed_run_is_recorded(tmp_path, monkeypatch):
    factory.create_engine(cpp("id=one", "budget=3"), tmp_path / "a").close()
    before = (tmp_path / "a" / "run.toml").read_text()
    factory.resume_engine(tmp_path / "a").close()
    assert (tmp_path / "a" / "run.toml").read_text() == before, "the same machine"
    (original,) = factory.Run.open(tmp_path / "a").environments()
    for machine in ("other", "other", "third", original["hardware"]["machine"]):
        monkeypatch.setattr(factory, "describe_hardware", lambda machine=machine: {**original["hardware"], "machine": machine})
        factory.resume_engine(tmp_path / "a").close()
    run = factory.Run.open(tmp_path / "a")
    assert run.environments()[0] == original
    assert [environment["hardware"]["machine"] for environment in run.environments()[1:]] == ["other", "third"]
    assert run.environment_summary()["machine"] == f"{original['hardware']['machine']}, then other, then third"
    assert run.environment_summary()["python"] == original["versions"]["python"]
    assert resolve_config(tmp_path / "a" / "run.toml").budget == 3, "its settings can start a new run"


def test_prompts_name_the_versions_of_the_machine_that_verifies(tmp_path, monkeypatch):
    monkeypatch.setattr(factory, "verifier_toolchain", lambda config, executor: {"gpu": "NVIDIA H200", "architecture": "sm_90a"})
    engine = factory.create_engine(cpp("id=one", "generator.name=command", "generator.command=cat"), tmp_path / "a")
    assert engine.generator.prompts.find_versions() == {"gpu": "NVIDIA H200", "architecture": "sm_90a"}
    engine.close()


def test_settings_of_an_earlier_run_start_a_new_one(tmp_path):
    factory.create_engine(cpp("id=one", "budget=3", "policy.epsilon=0.5"), tmp_path / "a").close()
    config = resolve_config(tmp_path / "a" / "run.toml")
    assert (config.budget, config.plugin_settings("policy"), config.id) == (3, {"epsilon": 0.5}, "")


def make_huge(task, **sizes):
    tensor = task.signature.inputs[0].model_copy(update={"shape": (1 << 20, 1 << 20)})
    signature = task.signature.model_copy(update={"inputs": (tensor,)})
    return task.model_copy(update={"signature": signature, "sizes": {**task.sizes, **sizes}})


def test_task_larger_than_memory_is_refused(monkeypatch):
    monkeypatch.setattr(factory, "find_task_files", lambda spec: [make_task("relu"), make_huge(make_task("relu"))])
    monkeypatch.setattr(factory, "describe_task", lambda file, size="laptop": file)
    with pytest.raises(UserError, match=r"t/relu needs about .* GB"):
        load_sized_tasks(cpp("size=laptop"), "any")


def test_task_that_does_not_fit_is_taken_at_a_smaller_size_unless_the_user_chose(monkeypatch, caplog):
    small = make_task("relu")
    monkeypatch.setattr(factory, "find_task_files", lambda spec: [SimpleNamespace(timed_size="full")])
    monkeypatch.setattr(factory, "describe_task", lambda file, size="laptop": make_huge(small, laptop={}) if size == "full" else small)
    monkeypatch.setattr(type(make_plugin("backend", "cpp")), "timed_size", "full")
    assert load_sized_tasks(cpp(), "any") == [small]
    assert "t/relu is timed at size laptop: at size full it needs about" in caplog.text
    with pytest.raises(UserError, match="Choose --size laptop"):
        load_sized_tasks(cpp("size=full"), "any")


@pytest.mark.parametrize(
    ("backend", "spec", "size", "expected"),
    [("triton", "level1/relu", "auto", "laptop"),
     ("pallas", "level1/relu", "auto", "full"), ("pallas", "starter/gelu", "auto", "laptop"), ("cpp", "level1/relu", "auto", "laptop"),
     ("pallas", "starter/gelu", "full", "full"), ("ascendc", "level1/relu", "laptop", "laptop")],
)  # fmt: skip
def test_size_is_the_users_choice_or_that_of_backend_and_suite(backend, spec, size, expected):
    (file,) = find_task_files(spec)
    assert factory.choose_timed_size(resolve_config(None, [f"size={size}"], backend=backend), file) == expected


@pytest.mark.parametrize("backend", ["cuda", "triton"])
def test_a_gpu_times_published_sizes_unless_they_exceed_its_memory(backend, monkeypatch, caplog):
    gpu = Device("GPU", "13.0", {"major": 9, "minor": 0}, memory_bytes=140 * 2**30)
    monkeypatch.setattr(GpuBackend, "device", gpu)
    config = resolve_config(None, [], backend=backend)
    assert factory.choose_timed_size(config, find_task_files("level1/relu")[0]) == "full"
    assert factory.choose_timed_size(config, find_task_files("starter/gelu")[0]) == "laptop"
    assert load_sized_tasks(config, "level1/relu")[0].timed_size == "full"
    monkeypatch.setattr(GpuBackend, "device", gpu._replace(memory_bytes=8 * 10**9))
    assert load_sized_tasks(config, "level1/relu")[0].timed_size == "laptop"
    assert "GB of device memory, but the GPU has 8 GB" in caplog.text


@pytest.mark.parametrize(
    ("kind", "name", "settings", "message"),
    [
        ("policy", "value", {"epsilon": "abc"}, "policy.epsilon = 'abc' must be a number"),
        ("policy", "value", {"top_n": 2.5}, "must be an integer"),
        ("policy", "passk", {"static_cards": 1}, "must be true or false"),
        ("backend", "cpp", {"threads": "two"}, "backend.threads = 'two' must be an integer"),
        ("backend", "cpp", {"compiler": 3}, "must be a string"),
    ],
)
def test_setting_of_the_wrong_type_is_named(kind, name, settings, message):
    with pytest.raises(UserError, match=message):
        make_plugin(kind, name, **settings)


UNAVAILABLE = "no compiler for TPUs: pip install it"


def disable_backends(monkeypatch, *backends):
    """Make shipped backends unavailable."""
    for name in backends:
        monkeypatch.setattr(type(make_plugin("backend", name)), "unavailable_reason", lambda self: UNAVAILABLE)


def test_fallback_backend_replaces_an_unavailable_default(monkeypatch, tmp_path):
    if make_plugin("backend", "cpp").unavailable_reason():
        pytest.skip("no C++ compiler")
    disable_backends(monkeypatch, "pallas")
    config, reason = factory.choose_working_backend(resolve_config(None, ["id=one"]))
    assert (config.backend, reason) == ({"name": "cpp"}, f"backend 'pallas' cannot work on this machine: {UNAVAILABLE}")
    factory.create_engine(config, tmp_path / "a").close()
    assert factory.Run.open(tmp_path / "a").config.backend == {"name": "cpp"}


def test_available_default_is_used(monkeypatch):
    monkeypatch.setattr(type(make_plugin("backend", "pallas")), "unavailable_reason", lambda self: None)
    assert factory.choose_working_backend(resolve_config(None)) == (resolve_config(None), "")


def test_chosen_backend_is_never_replaced(monkeypatch, tmp_path):
    disable_backends(monkeypatch, "pallas")
    (tmp_path / "mine.toml").write_text('[backend]\nname = "pallas"\n')
    for config in (
        resolve_config(None, backend="pallas"),
        resolve_config(None, ["backend.chip=v6e"]),
        resolve_config(tmp_path / "mine.toml"),
    ):
        assert factory.choose_working_backend(config) == (config, "")
        with pytest.raises(UserError, match=UNAVAILABLE):
            factory.create_engine(config)


def test_default_is_named_if_no_backend_is_available(monkeypatch):
    disable_backends(monkeypatch, "pallas", "cpp")
    config, reason = factory.choose_working_backend(resolve_config(None))
    assert (config.plugin_name("backend"), reason) == ("pallas", "")


def test_generator_suggests_a_budget_and_the_user_overrides_it():
    config = factory.apply_generator_defaults(cpp())
    assert (config.budget, config.stop_when) == (5, "gain")
    assert factory.apply_generator_defaults(cpp("budget=9")).stop_when == "budget"
    assert factory.apply_generator_defaults(cpp("stop_when=feasible")).budget == RunConfig().budget
    assert factory.apply_generator_defaults(cpp("min_expected_gain=0.3")).min_expected_gain == 0.3
    assert factory.apply_generator_defaults(cpp("generator=llm")).budget == RunConfig().budget


@pytest.mark.parametrize(
    ("backend", "workers", "cores", "expected"), [("cuda", 0, 16, 4), ("triton", 0, 2, 2), ("cuda", 9, 2, 9), ("cpp", 0, 16, 0)]
)
def test_a_gpu_gets_no_more_workers_than_it_can_use(monkeypatch, backend, workers, cores, expected):
    monkeypatch.setattr(config_module, "usable_cores", lambda: cores)
    config = resolve_config(None, base={"backend": {"name": backend}, "workers": workers})
    assert factory.plugin_kwargs(config, "executor")["workers"] == expected, "0 means one per core"
