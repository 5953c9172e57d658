"""Settings come from defaults, files, flags and --set; unknown settings are refused with one line."""

import tomllib

import pytest

from evokernel.core.config import RunConfig, format_toml, resolve_config
from evokernel.core.errors import UserError


def test_defaults_name_suite_and_plugins():
    config = resolve_config(None)
    assert (config.tasks, config.plugin_name("backend"), config.plugin_name("generator"), config.plugin_name("policy")) == (
        "starter",
        "pallas",
        "template_search",
        "value",
    )


def test_flags_and_overrides_win_over_the_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('budget = 3\n[policy]\nname = "value"\nepsilon = 0.5\n')
    config = resolve_config(file, ["policy.epsilon=0.1", "tasks=starter/softmax"], seed=7)
    assert (config.budget, config.seed, config.tasks) == (3, 7, "starter/softmax")
    assert config.plugin_settings("policy") == {"epsilon": 0.1}


def test_choosing_another_plugin_drops_settings_of_the_previous_one():
    config = resolve_config(None, ["policy.epsilon=0.1", "policy=passk"])
    assert config.policy == {"name": "passk"}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["budgte=3"], "did you mean 'budget'"),
        (["budget=0"], "budget"),
        (["budget=many"], "budget"),
        (["policy"], "--set key=value"),
        (["backend.name=3"], "backend"),
        (["policy=3"], "must be the name of a policy"),
    ],
)
def test_invalid_setting_is_reported_in_one_line(overrides, message):
    with pytest.raises(UserError, match=message) as caught:
        resolve_config(None, overrides)
    assert "\n" not in str(caught.value)


def test_invalid_toml_error_names_the_file(tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text("budget = = 3")
    with pytest.raises(UserError, match=r"bad\.toml"):
        resolve_config(file)
    with pytest.raises(UserError, match="cannot read"):
        resolve_config(tmp_path / "none.toml")


def test_saved_settings_equal_the_original(tmp_path):
    config = RunConfig(
        id="a", budget=5, policy={"name": "value", "pool_factor": [[0, 4], [10, 15]], "epsilon": 0.1}, baselines=("eager", "compile")
    )
    file = tmp_path / "run.toml"
    file.write_text(format_toml(config.model_dump(mode="json")))
    assert resolve_config(file) == config


@pytest.mark.parametrize(
    "table",
    [
        {"name": '\N{ROCKET} "quoted" \\ line\nbreak \x7f'},
        {"a": {"b": {"c": 1}, "d": 2}, "e": {}},
        {"dotted.key": 1, "": {"key with spaces": [1, 2]}},
        {"list": [{"x": 1}, {"x": [0.5, True]}], "huge": float("inf")},
    ],
    ids=["characters", "nested tables", "keys", "tables in lists"],
)
def test_written_toml_reads_back_as_the_same_table(table):
    assert tomllib.loads(format_toml(table)) == table


def test_settings_without_a_value_are_not_written():
    assert tomllib.loads(format_toml({"a": None, "b": {"c": None, "d": 1}})) == {"b": {"d": 1}}
