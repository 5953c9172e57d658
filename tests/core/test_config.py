"""Settings come from defaults, files, flags and --set, and what is unknown is refused in one line."""

import pytest

from evokernel.core.config import RunConfig, resolve_config, write_toml
from evokernel.core.errors import UserError


def test_defaults_are_the_main_job():
    config = resolve_config(None)
    assert (config.tasks, config.plugin_name("backend"), config.plugin_name("generator"), config.plugin_name("policy")) == (
        "starter",
        "pallas",
        "sweep",
        "value",
    )


def test_later_wins(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('budget = 3\n[policy]\nname = "value"\nepsilon = 0.5\n')
    config = resolve_config(file, ["policy.epsilon=0.1", "tasks=starter/softmax"], seed=7)
    assert (config.budget, config.seed, config.tasks) == (3, 7, "starter/softmax")
    assert config.plugin_settings("policy") == {"epsilon": 0.1}


def test_another_plugin_drops_the_settings_of_the_old():
    config = resolve_config(None, ["policy.epsilon=0.1", "policy=passk"])
    assert config.policy == {"name": "passk"}


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        (["budgte=3"], "did you mean 'budget'"),
        (["budget=0"], "budget"),
        (["budget=many"], "budget"),
        (["policy"], "--set key=value"),
        (["backend.name=3"], "backend"),
        (["policy=3"], "give the name of a policy"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(sets, says):
    with pytest.raises(UserError, match=says) as caught:
        resolve_config(None, sets)
    assert "\n" not in str(caught.value)


def test_bad_toml_names_the_file(tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text("budget = = 3")
    with pytest.raises(UserError, match=r"bad\.toml"):
        resolve_config(file)
    with pytest.raises(UserError, match="cannot read"):
        resolve_config(tmp_path / "none.toml")


def test_a_saved_file_is_the_same_settings(tmp_path):
    config = RunConfig(
        id="a", budget=5, policy={"name": "value", "widen": [[0, 4], [10, 15]], "epsilon": 0.1}, baselines=("eager", "compile")
    )
    file = tmp_path / "run.toml"
    file.write_text(write_toml(config.model_dump(mode="json")))
    assert resolve_config(file) == config
