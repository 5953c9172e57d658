"""Builds and installs an operator project, also with tools that fail."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from cann_toolkit import DESCRIPTION, Toolkit
from time_limits import HANG_S, growing_limits, wait_until

from evokernel.backends.ascendc.cann import generate, package, quick_compile, tools
from evokernel.backends.ascendc.cann.call import BUILD_RECORD
from evokernel.backends.ascendc.cann.detect import NPU, TOOLCHAIN, Installation
from evokernel.backends.ascendc.cann.pipeline import CannPipeline
from evokernel.core.errors import CandidateError, InfraError, UserError

FILES = {"tiling.h": "// tiling", "op_host.cpp": '#include "tiling.h"', "op_kernel.cpp": "// kernel", "op_kernel/more.h": "// more"}


def project(**changes):
    fields = {
        "op": "KernelCustom",
        "entry": "kernel_custom",
        "parameter_count": 5,
        "files": FILES,
        "kernel_file": "op_kernel.cpp",
        "host_files": ("op_host.cpp",),
        "tiling_header": "tiling.h",
        "tiling_struct": "optiling::KernelCustomTilingData",
        "dtypes": {"X": "float"},
        "bind_source": "",
    }
    return SimpleNamespace(**fields | changes)


@pytest.fixture
def toolkit(tmp_path, monkeypatch):
    made = Toolkit(tmp_path / "cann", monkeypatch)
    made.modes(bisheng="stub", build="stub")
    return made


@pytest.fixture
def workdir(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def cann(toolkit, level=NPU, timeout_s=HANG_S):
    return CannPipeline(toolkit.detect()._replace(level=level), "Ascend910B2", 0, timeout_s)


def build(toolkit, workdir, made=None, **options):
    cann(toolkit, **options).build(made or project(), json.dumps([DESCRIPTION]), workdir)


def called(workdir, tool):
    return json.loads((workdir / f"{tool}.called.json").read_text())


def test_project_is_built_and_installed(toolkit, workdir, monkeypatch):
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", "/stale/vendors/customize")
    monkeypatch.setenv("SECRET_TOKEN", "mine")
    build(toolkit, workdir)
    built = json.loads((workdir / BUILD_RECORD).read_text())
    assert built["op"] == "KernelCustom"
    assert os.path.isfile(built["library"])
    assert built["library"].startswith(str(workdir / "opp" / "vendors" / "evokernel_"))
    assert built["variables"]["ASCEND_CUSTOM_OPP_PATH"] in built["library"]
    environment = called(workdir, "build")["environment"]
    assert "ASCEND_CUSTOM_OPP_PATH" not in environment
    assert "SECRET_TOKEN" not in environment
    assert environment["ASCEND_HOME_PATH"] == str(toolkit.home)
    arguments = called(workdir, "msopgen")["arguments"]
    assert arguments[:2] == ["gen", "-i"]
    assert "ai_core-Ascend910B2" in arguments
    assert "-f" not in arguments


def test_generated_project_has_candidate_files(toolkit, workdir):
    build(toolkit, workdir)
    tree = workdir / "KernelCustom"
    assert (tree / "op_host" / "kernel_custom.cpp").read_text() == FILES["op_host.cpp"]
    assert (tree / "op_kernel" / "kernel_custom.cpp").read_text() == FILES["op_kernel.cpp"]
    assert (tree / "op_host" / "tiling.h").read_text() == (tree / "op_kernel" / "tiling.h").read_text() == FILES["tiling.h"]
    assert (tree / "op_kernel" / "more.h").exists()
    assert not (tree / "op_host" / "kernel_custom_tiling.h").exists()
    assert (tree / "op_host" / "CMakeLists.txt").exists()
    variables = json.loads((tree / "CMakePresets.json").read_text())["configurePresets"][0]["cacheVariables"]
    assert variables["ASCEND_CANN_PACKAGE_PATH"]["value"] == str(toolkit.home)
    assert variables["vendor_name"]["value"] == generate.unique_vendor_name(project())
    assert variables["ASCEND_COMPUTE_UNIT"]["value"] == "ascend910b"


def test_vendor_names_are_unique_per_candidate():
    other = project(files=FILES | {"op_kernel.cpp": "// another kernel"})
    assert generate.unique_vendor_name(project()) != generate.unique_vendor_name(other)
    assert generate.unique_vendor_name(project()) == generate.unique_vendor_name(project())


def test_layout_of_several_host_files_and_folders():
    files = {"op_host/a_tiling.cpp": "a", "op_host/b_def.cpp": "b", "op_kernel/k.cpp": "k", "op_kernel/k.h": "h"}
    made = project(files=files, kernel_file="op_kernel/k.cpp", host_files=("op_host/a_tiling.cpp", "op_host/b_def.cpp"))
    assert generate.file_layout(made) == {
        "op_host/kernel_custom.cpp": "op_host/a_tiling.cpp",
        "op_host/b_def.cpp": "op_host/b_def.cpp",
        "op_kernel/kernel_custom.cpp": "op_kernel/k.cpp",
        "op_kernel/k.h": "op_kernel/k.h",
    }


def test_existing_project_folder_is_refused(toolkit, workdir):
    (workdir / "KernelCustom").mkdir()
    with pytest.raises(InfraError, match="needs a separate folder"):
        build(toolkit, workdir)


@pytest.mark.parametrize(
    ("modes", "error", "words"),
    [
        ({"msopgen": "fail:op-name"}, CandidateError, "PascalCase"),
        ({"msopgen": "silent"}, CandidateError, "without a message"),
        ({"msopgen": "killed"}, InfraError, "killed"),
        ({"msopgen": "nothing"}, InfraError, "no build.sh"),
        ({"msopgen": "no-presets"}, InfraError, "CMakePresets.json"),
        ({"build": "fail:kernel-undeclared"}, CandidateError, "op_kernel.cpp:31:14"),
        ({"build": "fail:no-tbe"}, UserError, "set_env.sh"),
        ({"build": "silent"}, CandidateError, "without a message"),
        ({"build": "killed"}, CandidateError, "another process killed"),
        ({"build": "quiet-failure"}, CandidateError, "op_kernel.cpp:3:1: error: use of undeclared"),
        ({"build": "no-run"}, InfraError, "no .run file"),
        ({"build": "other-run"}, InfraError, "customize.run"),
        ({"build": "installer-fails"}, InfraError, "unpacked"),
        ({"build": "installer-empty"}, InfraError, "no libcust_opapi.so"),
        ({"bisheng": "fail:kernel-host-call"}, CandidateError, "op_kernel.cpp:9:12"),
        ({"bisheng": "killed"}, CandidateError, "another process killed"),
    ],
    ids=lambda value: "-".join(f"{k}-{v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_failing_tool_raises_matching_error(modes, error, words, toolkit, workdir):
    toolkit.modes(**{"bisheng": "stub", "build": "stub"} | modes)
    with pytest.raises(error) as caught:
        build(toolkit, workdir)
    assert words in str(caught.value)
    assert str(workdir) not in str(caught.value)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_timeout_kills_build_with_its_children(toolkit, workdir):
    toolkit.modes(bisheng="stub", build="hang")
    note = workdir / "KernelCustom" / "grandchild.pid"
    for limit_s in growing_limits(lambda: note.exists() and note.read_text()):
        with pytest.raises(CandidateError) as caught:
            build(toolkit, workdir, timeout_s=limit_s)
        assert caught.value.reason == "build_timeout"
    grandchild = int(note.read_text())
    wait_until(lambda: not is_alive(grandchild))


DETACHED = """
import os, time
if os.fork() == 0:
    try:
        os.setsid()
    except OSError:
        pass
    open("detached.pid", "w").write(str(os.getpid()))
    time.sleep(600)
time.sleep(600)
"""


@pytest.mark.parametrize("uses_npu", [False, True], ids=["building", "measured"])
def test_detached_grandchild_is_killed(uses_npu, workdir):
    """A grandchild in a new session is killed with the others."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(workdir)}
    note = workdir / "detached.pid"
    for limit_s in growing_limits(lambda: note.exists() and note.read_text()):
        assert tools.run_tool([sys.executable, "-c", DETACHED], workdir, environment, limit_s, uses_npu=uses_npu).timed_out
    detached = int(note.read_text())
    wait_until(lambda: not is_alive(detached))


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("touch -d 2020-01-01 file && cp -p file other && tar cf all.tar file && tar xf all.tar", 0),
        ('python3 -c \'import socket; a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"\'', 0),
        ("python3 -c 'import socket; socket.socket(socket.AF_INET)'", 1),
        ("python3 -c 'import socket; socket.socket(socket.AF_UNIX)'", 1),
        ("cat /etc/shadow", 1),
    ],
)
def test_build_sandbox_allows_required_operations(script, code, workdir):
    environment = {"PATH": os.environ["PATH"], "HOME": str(workdir)}
    done = tools.run_tool(["/bin/bash", "-c", script], workdir, environment, HANG_S)
    assert done.code == code, done.text


def test_real_interpreter_behind_a_script_is_found(workdir, tmp_path):
    """Version managers put a script on PATH; the sandbox cannot read the script and its files."""
    (tmp_path / "manager").write_text(f'exec {sys.executable} "$@"')
    shim = tmp_path / "shims" / "python3"
    shim.parent.mkdir()
    shim.write_text(f"#!/bin/sh\n. {tmp_path}/manager\n")
    shim.chmod(0o755)
    environment = {"PATH": f"{shim.parent}:/usr/bin:/bin", "HOME": str(workdir)}
    done = tools.run_tool(["/bin/sh", "-c", "python3 -c 'import json; print(7)'"], workdir, environment, HANG_S)
    assert (done.code, done.text) == (0, "7\n")


def test_hanging_msopgen_times_out(toolkit, workdir, monkeypatch):
    monkeypatch.setattr(generate, "GENERATE_TIMEOUT_S", 1.0)
    toolkit.modes(bisheng="stub", msopgen="hang")
    with pytest.raises(InfraError, match="msopgen did not finish"):
        build(toolkit, workdir)


def test_missing_tool_raises_infra_error(toolkit, workdir):
    found = toolkit.detect()
    gone = found._replace(level=NPU, tools=found.tools | {"msopgen": str(workdir / "msopgen")})
    with pytest.raises(InfraError, match=r"(?i)cannot start"):
        CannPipeline(gone, "Ascend910B2").build(project(), json.dumps([DESCRIPTION]), workdir)


def test_project_with_binding_is_refused_on_the_npu(toolkit, workdir):
    with pytest.raises(UserError, match="toolchain=simulator"):
        build(toolkit, workdir, project(bind_source="PYBIND11_MODULE"))


def test_pipeline_without_toolkit_is_refused():
    with pytest.raises(UserError, match="install it"):
        CannPipeline(Installation("none", None, {}, {}, "install it"), "Ascend910B2")


@pytest.mark.parametrize(("level", "packaged"), [(TOOLCHAIN, False), (NPU, True)])
def test_without_an_npu_the_kernel_is_only_compiled(level, packaged, toolkit, workdir):
    build(toolkit, workdir, level=level)
    assert (workdir / BUILD_RECORD).exists() == packaged
    words = called(workdir / quick_compile.BUILD_FOLDER, "bisheng")["arguments"]
    assert {"--npu-arch=dav-2201", "-xasc", "-std=c++17"} <= set(words)


@pytest.mark.parametrize("bisheng", ["old", None])
def test_an_older_toolkit_builds_the_package(bisheng, toolkit, workdir):
    toolkit.modes(bisheng="old", build="stub")
    found = toolkit.detect()._replace(level=TOOLCHAIN)
    tools = found.tools if bisheng else found.tools | {"bisheng": None}
    CannPipeline(found._replace(tools=tools), "Ascend910B2").build(project(), json.dumps([DESCRIPTION]), workdir)
    assert (workdir / BUILD_RECORD).exists()


def test_a_build_cannot_write_elsewhere(toolkit, workdir, tmp_path):
    (tmp_path / "outside").mkdir()
    done = tools.run_tool(["/bin/bash", "-c", f"echo x > {tmp_path}/outside/file"], workdir, {"PATH": os.environ["PATH"]}, 20)
    from evokernel.sandbox import layers

    assert (done.code != 0) == ("landlock" in layers.get_active_layers())


def test_installer_runs_without_input(toolkit, workdir):
    """The installer is only ever called with its own folder, so nothing goes into the toolkit."""
    build(toolkit, workdir)
    installer = next((workdir / "KernelCustom" / "build_out").glob(package.INSTALLER))
    assert subprocess.run(["bash", str(installer)], capture_output=True).returncode == 1
