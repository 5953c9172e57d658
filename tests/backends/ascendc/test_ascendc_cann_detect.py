"""Detection of CANN: all combinations of folder, tools and NPU, and the fix for each missing part."""

import os

import pytest
from cann_toolkit import BIN, FAKE, Toolkit, only
from time_limits import growing_limits

from evokernel.backends.ascendc.cann import detect
from evokernel.backends.ascendc.cann.environment import InstalledPackage, build_environment, run_environment, simulator_environment


@pytest.fixture
def toolkit(tmp_path, monkeypatch):
    """A toolkit without its own programs: only PATH matters."""
    made = Toolkit(tmp_path / "cann", monkeypatch)
    (made.home / "bin").rename(tmp_path / "tools")
    return made


def test_no_toolkit_is_reported_with_fix(tmp_path):
    found = detect.inspect_environment({"PATH": str(tmp_path)}, [str(tmp_path / "set_env.sh")])
    assert found.level == detect.NONE
    assert found.home is None
    assert found.fix == f"no CANN toolkit: install it, then source its set_env.sh (usually {tmp_path}/set_env.sh)"
    assert set(found.tools.values()) == {None}


def test_toolkit_without_set_env_is_reported(tmp_path):
    (tmp_path / "set_env.sh").touch()
    found = detect.inspect_environment({"PATH": ""}, ["/nowhere/set_env.sh", str(tmp_path / "set_env.sh")])
    assert (found.level, found.home) == (detect.NONE, None)
    assert found.fix.endswith(f"source {tmp_path}/set_env.sh")


def test_variable_of_missing_folder_is_reported(tmp_path):
    found = detect.inspect_environment({"ASCEND_HOME_PATH": str(tmp_path / "gone"), "PATH": str(BIN)}, ())
    assert found.level == detect.NONE
    assert "ASCEND_HOME_PATH" in found.fix
    assert "does not exist" in found.fix


def test_older_home_variable_is_used(toolkit, tmp_path):
    environment = {"ASCEND_INSTALL_PATH": str(toolkit.home), "PATH": only(tmp_path / "bin", "msopgen", "bisheng")}
    assert detect.inspect_environment(environment, ()).home == toolkit.home


@pytest.mark.parametrize("there", [(), ("msopgen",), ("bisheng",), ("msprof", "npu-smi")], ids=" ".join)
def test_incomplete_toolkit_is_reported(there, toolkit, tmp_path):
    found = detect.inspect_environment({"ASCEND_HOME_PATH": str(toolkit.home), "PATH": only(tmp_path / "bin", *there)}, ())
    assert found.level == detect.NONE
    missing = [name for name in detect.REQUIRED_TOOLS if name not in there]
    assert f"{' and '.join(missing)} missing" in found.fix
    assert "set_env.sh" in found.fix
    assert found.versions["cann"] == "8.0.RC3"


@pytest.mark.parametrize("profilers", [(), ("msprof",), ("msopprof",)], ids=" ".join)
@pytest.mark.parametrize("smi", ["none", "well", "silent"])
@pytest.mark.parametrize("torch", [False, True], ids=["no torch_npu", "torch_npu"])
def test_level_depends_on_npu_and_profiler(profilers, smi, torch, toolkit, tmp_path):
    names = ["msopgen", "bisheng", *profilers, *([] if smi == "none" else ["npu-smi"])]
    environment = {"ASCEND_HOME_PATH": str(toolkit.home), "PATH": only(tmp_path / "bin", *names), "PYTHONPATH": str(FAKE)}
    toolkit.modes(npu_smi=smi)
    if torch:
        (toolkit.home / "card").touch()
    found = detect.inspect_environment(environment, ())
    has_card = smi == "well" or torch
    assert found.level == (detect.NPU if has_card and profilers else detect.TOOLCHAIN)
    if found.level == detect.NPU:
        assert found.fix == ""
        assert found.versions["npu"] == ("2 x 910B2" if smi == "well" else "not reported")
    else:
        assert ("profiler" if has_card else "driver") in found.fix
        assert "\n" not in found.fix


def test_unresponsive_npu_is_reported(toolkit, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    toolkit.modes(npu_smi="hang")
    environment = {"ASCEND_HOME_PATH": str(toolkit.home), "PATH": only(tmp_path / "bin", *detect.TOOLS)}
    for limit_s in growing_limits((tmp_path / "grandchild.pid").exists):
        monkeypatch.setattr(detect, "NPU_SMI_TIMEOUT_S", limit_s)
        found = detect.inspect_environment(environment, ())
    assert found.level == detect.TOOLCHAIN
    assert "does not answer" in found.fix
    os.kill(int((tmp_path / "grandchild.pid").read_text()), 9)


def test_tools_are_found_inside_the_toolkit(toolkit, tmp_path):
    import platform
    import shutil

    compiler = toolkit.home / f"{platform.machine()}-linux" / "ccec_compiler" / "bin"
    compiler.mkdir(parents=True)
    shutil.copy(BIN / "bisheng", compiler / "bisheng")
    (toolkit.home / "bin").mkdir()
    shutil.copy(BIN / "msopgen", toolkit.home / "bin" / "msopgen")
    found = detect.inspect_environment({"ASCEND_HOME_PATH": str(toolkit.home), "PATH": str(tmp_path)}, ())
    assert found.tools["bisheng"] == str(compiler / "bisheng")
    assert found.level == detect.TOOLCHAIN


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("version.cfg", "toolkit_running_version=[8.1.RC1]\n", "8.1.RC1"),
        ("x86_64-linux/ascend_toolkit_install.info", "package_name=Ascend-cann-toolkit\nversion=7.0.0\n", "7.0.0"),
        ("compiler/version.info", "Version=6.3.RC2\n", "6.3.RC2"),
        ("version.cfg", "nothing of use\n", "not reported"),
    ],
)
def test_versions_are_read_from_toolkit_files(name, text, version, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert detect.read_version(tmp_path) == version


def test_detection_is_cached_per_environment(toolkit, monkeypatch):
    asked = []
    monkeypatch.setattr(detect, "INSTALLATIONS", {})
    monkeypatch.setattr(
        detect, "inspect_environment", lambda environment: asked.append(1) or detect.Installation("none", None, {}, {}, "why")
    )
    detect.detect_installation()
    detect.detect_installation()
    assert len(asked) == 1
    monkeypatch.setenv("ASCEND_HOME_PATH", "/elsewhere")
    detect.detect_installation()
    assert len(asked) == 2


def test_build_environment_has_only_needed_variables(tmp_path):
    given = {"PATH": "/bin", "ASCEND_CUSTOM_OPP_PATH": "/old/vendors/customize", "OPENAI_API_KEY": "secret", "ASCEND_OPP_PATH": "/opp"}
    variables = build_environment(tmp_path, tmp_path / "cann", given)
    assert "ASCEND_CUSTOM_OPP_PATH" not in variables
    assert "OPENAI_API_KEY" not in variables
    assert variables["ASCEND_OPP_PATH"] == "/opp"
    assert variables["HOME"] == str(tmp_path)


def test_run_environment_selects_operator_and_npu(tmp_path):
    installed = InstalledPackage(tmp_path / "opp" / "vendors" / "mine")
    given = {"PATH": "/bin", "ASCEND_CUSTOM_OPP_PATH": "/old", "LD_LIBRARY_PATH": "/cann/lib64"}
    variables = run_environment(tmp_path, tmp_path / "cann", installed, 3, given)
    assert variables["ASCEND_CUSTOM_OPP_PATH"] == str(installed.vendor)
    assert variables["LD_LIBRARY_PATH"].split(":")[0] == str(installed.vendor / "op_api" / "lib")
    assert variables["LD_LIBRARY_PATH"].split(":")[-1] == "/cann/lib64"
    assert variables["ASCEND_RT_VISIBLE_DEVICES"] == "3"
    first = simulator_environment(tmp_path, "Ascend910B1", variables)["LD_LIBRARY_PATH"].split(":")[0]
    assert first == f"{tmp_path}/tools/simulator/Ascend910B1/lib"
