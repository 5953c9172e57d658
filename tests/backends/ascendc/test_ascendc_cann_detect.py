"""What of CANN is found: all combinations of a folder, tools and a card, each missing part with its fix."""

import os
import time

import pytest
from cann_toolkit import BIN, FAKE, Toolkit, only

from evokernel.backends.ascendc.cann import detect
from evokernel.backends.ascendc.cann.environment import Installed, for_building, for_running, simulated


@pytest.fixture
def toolkit(tmp_path, monkeypatch):
    """A toolkit without programs of its own: only PATH decides."""
    made = Toolkit(tmp_path / "cann", monkeypatch)
    (made.home / "bin").rename(tmp_path / "tools")
    return made


def test_nothing_at_all(tmp_path):
    found = detect.look({"PATH": str(tmp_path)}, [str(tmp_path / "set_env.sh")])
    assert found.level == detect.NONE
    assert found.home is None
    assert found.why == f"no CANN toolkit: install it, then source its set_env.sh (usually {tmp_path}/set_env.sh)"
    assert set(found.tools.values()) == {None}


def test_installed_but_not_set_up(tmp_path):
    (tmp_path / "set_env.sh").touch()
    found = detect.look({"PATH": ""}, ["/nowhere/set_env.sh", str(tmp_path / "set_env.sh")])
    assert (found.level, found.home) == (detect.NONE, None)
    assert found.why.endswith(f"source {tmp_path}/set_env.sh")


def test_a_stale_variable(tmp_path):
    found = detect.look({"ASCEND_HOME_PATH": str(tmp_path / "gone"), "PATH": str(BIN)}, ())
    assert found.level == detect.NONE
    assert "ASCEND_HOME_PATH" in found.why
    assert "does not exist" in found.why


def test_the_older_variable(toolkit, tmp_path):
    environment = {"ASCEND_INSTALL_PATH": str(toolkit.home), "PATH": only(tmp_path / "bin", "msopgen", "bisheng")}
    assert detect.look(environment, ()).home == toolkit.home


@pytest.mark.parametrize("there", [(), ("msopgen",), ("bisheng",), ("msprof", "npu-smi")], ids=" ".join)
def test_half_installed(there, toolkit, tmp_path):
    found = detect.look({"ASCEND_HOME_PATH": str(toolkit.home), "PATH": only(tmp_path / "bin", *there)}, ())
    assert found.level == detect.NONE
    missing = [name for name in detect.NEEDED if name not in there]
    assert f"{' and '.join(missing)} missing" in found.why
    assert "set_env.sh" in found.why
    assert found.versions["cann"] == "8.0.RC3"


@pytest.mark.parametrize("profilers", [(), ("msprof",), ("msopprof",)], ids=" ".join)
@pytest.mark.parametrize("smi", ["none", "well", "silent"])
@pytest.mark.parametrize("torch", [False, True], ids=["no torch_npu", "torch_npu"])
def test_toolchain_and_card(profilers, smi, torch, toolkit, tmp_path):
    names = ["msopgen", "bisheng", *profilers, *([] if smi == "none" else ["npu-smi"])]
    environment = {"ASCEND_HOME_PATH": str(toolkit.home), "PATH": only(tmp_path / "bin", *names), "PYTHONPATH": str(FAKE)}
    toolkit.modes(npu_smi=smi)
    if torch:
        (toolkit.home / "card").touch()
    found = detect.look(environment, ())
    has_card = smi == "well" or torch
    assert found.level == (detect.CARD if has_card and profilers else detect.TOOLCHAIN)
    if found.level == detect.CARD:
        assert found.why == ""
        assert found.versions["npu"] == ("2 x 910B2" if smi == "well" else "not reported")
    else:
        assert ("profiler" if has_card else "driver") in found.why
        assert "\n" not in found.why


def test_a_card_that_does_not_answer(toolkit, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(detect, "CARD_S", 0.5)
    toolkit.modes(npu_smi="hang")
    began = time.monotonic()
    found = detect.look({"ASCEND_HOME_PATH": str(toolkit.home), "PATH": only(tmp_path / "bin", *detect.TOOLS)}, ())
    assert time.monotonic() - began < 20
    assert found.level == detect.TOOLCHAIN
    assert "does not answer" in found.why
    os.kill(int((tmp_path / "grandchild.pid").read_text()), 9)


def test_tools_inside_the_toolkit(toolkit, tmp_path):
    import platform
    import shutil

    compiler = toolkit.home / f"{platform.machine()}-linux" / "ccec_compiler" / "bin"
    compiler.mkdir(parents=True)
    shutil.copy(BIN / "bisheng", compiler / "bisheng")
    (toolkit.home / "bin").mkdir()
    shutil.copy(BIN / "msopgen", toolkit.home / "bin" / "msopgen")
    found = detect.look({"ASCEND_HOME_PATH": str(toolkit.home), "PATH": str(tmp_path)}, ())
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
def test_versions(name, text, version, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert detect.version(tmp_path) == version


def test_asked_once_per_environment(toolkit, monkeypatch):
    asked = []
    monkeypatch.setattr(detect, "SEEN", {})
    monkeypatch.setattr(detect, "look", lambda environment: asked.append(1) or detect.Found("none", None, {}, {}, "why"))
    detect.found()
    detect.found()
    assert len(asked) == 1
    monkeypatch.setenv("ASCEND_HOME_PATH", "/elsewhere")
    detect.found()
    assert len(asked) == 2


def test_variables_of_a_build(tmp_path):
    given = {"PATH": "/bin", "ASCEND_CUSTOM_OPP_PATH": "/old/vendors/customize", "OPENAI_API_KEY": "secret", "ASCEND_OPP_PATH": "/opp"}
    variables = for_building(tmp_path, tmp_path / "cann", given)
    assert "ASCEND_CUSTOM_OPP_PATH" not in variables
    assert "OPENAI_API_KEY" not in variables
    assert variables["ASCEND_OPP_PATH"] == "/opp"
    assert variables["HOME"] == str(tmp_path)


def test_variables_of_a_run(tmp_path):
    installed = Installed(tmp_path / "opp" / "vendors" / "mine")
    given = {"PATH": "/bin", "ASCEND_CUSTOM_OPP_PATH": "/old", "LD_LIBRARY_PATH": "/cann/lib64"}
    variables = for_running(tmp_path, tmp_path / "cann", installed, 3, given)
    assert variables["ASCEND_CUSTOM_OPP_PATH"] == str(installed.vendor)
    assert variables["LD_LIBRARY_PATH"].split(":")[0] == str(installed.vendor / "op_api" / "lib")
    assert variables["LD_LIBRARY_PATH"].split(":")[-1] == "/cann/lib64"
    assert variables["ASCEND_RT_VISIBLE_DEVICES"] == "3"
    first = simulated(tmp_path, "Ascend910B1", variables)["LD_LIBRARY_PATH"].split(":")[0]
    assert first == f"{tmp_path}/tools/simulator/Ascend910B1/lib"
