"""Arms that run side by side make the attempts that they make one after the other, and a failing arm is named with its error."""

import pytest

from evokernel.core.cores import usable_cores
from evokernel.core.errors import UserError
from evokernel.core.run import Run
from evokernel.experiments import arm_processes, runner, spec
from evokernel.experiments.run_session import TimeLimitReached

SETTINGS = {"backend": "cpp", "budget": 2, "workers": 1, "clock": "synthetic", "size": "laptop"}


def make_spec(**settings):
    pack = spec.PackSpec(name="known", groups=["source"], exclude_groups=["target"], settings={"policy": "passk", "budget": 1})
    arms = [
        spec.ArmSpec(name="nothing", groups=["target"], settings={"policy": "passk"}),
        spec.ArmSpec(name="memory", groups=["target"], pack="known", settings={"policy": "similarity", **settings}),
    ]
    groups = {"target": "starter/gelu", "source": "starter/softmax"}
    return spec.ExperimentSpec(name="x", title="X", description="x", groups=groups, seeds=1, packs=[pack], arms=arms, settings=SETTINGS)


def read_attempts(folder, arm):
    return [(attempt.id, attempt.candidate.id, attempt.reward) for attempt in Run.open(folder / f"{arm}-0").attempts()]


@pytest.mark.slow
@pytest.mark.toolchain
def test_arms_side_by_side_make_the_same_attempts(tmp_path):
    plan = make_spec()
    tasks, _ = runner.filter_runnable(runner.select_operators(plan))
    lines = []
    arm_processes.run_side_by_side(plan, tasks, tmp_path / "many", 2, lines.append)
    runner.run_experiment(plan, tasks, tmp_path / "one")
    for arm in ("nothing", "memory"):
        assert read_attempts(tmp_path / "many", arm) == read_attempts(tmp_path / "one", arm)
        assert len(read_attempts(tmp_path / "one", arm)) == 2
    results = runner.run_experiment(plan, tasks, tmp_path / "many", time_limit_s=0.001)
    assert set(results) == {"nothing", "memory"}, "all runs are complete, so nothing is left to do"


@pytest.mark.slow
@pytest.mark.toolchain
def test_failing_arm_is_named_with_its_error(tmp_path):
    plan = make_spec(generator={"name": "from_files", "folder": str(tmp_path / "missing")})
    arm = plan.arms[1].model_copy(update={"pack": ""})
    plan = plan.model_copy(update={"arms": (arm,), "packs": ()})
    tasks, _ = runner.filter_runnable(runner.select_operators(plan))
    with pytest.raises(UserError, match=r"arm 'memory': .*missing.* \(log: .*memory\.log\)"):
        arm_processes.run_side_by_side(plan, tasks, tmp_path, 2)


def test_time_limit_of_an_arm_ends_the_experiment_as_usual(tmp_path):
    log = tmp_path / "one.log"
    log.write_text("note: something\nerror: no such model\n\n")
    arm_processes.raise_for_codes({"one": 0, "two": 0}, {})
    with pytest.raises(TimeLimitReached):
        arm_processes.raise_for_codes({"one": 0, "two": arm_processes.STOPPED_EXIT}, {})
    with pytest.raises(UserError, match="arm 'one': no such model"):
        arm_processes.raise_for_codes({"two": arm_processes.STOPPED_EXIT, "one": 1}, {"one": log})
    log.write_text("")
    with pytest.raises(UserError, match="its process ended with exit code -9"):
        arm_processes.raise_for_codes({"one": -9}, {"one": log})


def test_arms_share_the_cores_unless_settings_say_otherwise():
    plan = make_spec()
    assert arm_processes.share_cores(plan, 64).settings["workers"] == 1
    free = plan.model_copy(update={"settings": {}})
    assert arm_processes.share_cores(free, 1).settings["workers"] == usable_cores()
    assert arm_processes.share_cores(plan.model_copy(update={"settings": {"workers": 7}}), 2).settings["workers"] == 7
