"""Kernels on disk: backend detection, the files that are read, and refused input."""

import pytest

from evokernel.app import kernel_files
from evokernel.app.kernel_files import detect_backend, read_candidate, require_kernel_source
from evokernel.core.backend import Backend
from evokernel.core.errors import CandidateError, UserError
from evokernel.core.paths import write_files
from evokernel.core.records import Candidate


class Cpp(Backend):
    pass


class Folders(Backend):
    file_name = "kernel.asc"
    other_suffixes = (".txt", ".cpp", ".h")

    @classmethod
    def recognizes(cls, path):
        return (path / "op_kernel").is_dir() or (path.suffix == ".txt" and path.is_file() and "kernel_src" in path.read_text())


@pytest.fixture(autouse=True)
def two_backends(monkeypatch):
    monkeypatch.setattr(kernel_files, "load_backend_classes", lambda: {"folders": Folders, "cpp": Cpp})


@pytest.fixture
def project(tmp_path):
    files = {
        "op_host/add.cpp": "host",
        "op_kernel/add.cpp": "kernel",
        "op_kernel/deep/tiling.h": "tiling",
        "CMakeLists.txt": "cmake",
        ".git/config": "hidden",
        ".clang-format": "hidden",
        "build_out/add.cpp": "built",
        "op_kernel/add.o": "built",
        "notes.log": "built",
    }
    write_files(tmp_path / "project", files)
    (tmp_path / "project" / "picture.png").write_bytes(b"\x89PNG\0\0\xff")
    return tmp_path / "project"


def test_exact_name_beats_recognition_beats_suffix(tmp_path, project):
    write_files(
        tmp_path, {"one/kernel.cpp": "", "six.txt": "host_tiling_src = '' kernel_src = ''", "other.txt": "words", "both.d/kernel.asc": ""}
    )
    assert detect_backend(tmp_path / "one") == "cpp"
    assert detect_backend(tmp_path / "one" / "kernel.cpp") == "cpp"
    assert detect_backend(tmp_path / "mine.asc") == "folders"
    assert detect_backend(tmp_path / "both.d") == "folders"
    assert detect_backend(project) == "folders"
    (project / "kernel.cpp").write_text("")
    assert detect_backend(project) == "cpp"
    assert detect_backend(tmp_path / "six.txt") == "folders"
    assert detect_backend(tmp_path / "other.txt") == "pallas", "the default"


def test_folder_is_read_with_its_subfolders(project):
    assert read_candidate(project, "folders").files == {
        "CMakeLists.txt": "cmake",
        "op_host/add.cpp": "host",
        "op_kernel/add.cpp": "kernel",
        "op_kernel/deep/tiling.h": "tiling",
    }


def test_single_file_is_stored_by_its_suffix(tmp_path):
    (tmp_path / "six parts.txt").write_text("x")
    assert read_candidate(tmp_path / "six parts.txt", "folders").files == {"kernel.txt": "x"}


@pytest.mark.parametrize("files", [{f"{n}.h": "x" for n in range(65)}, {"large.h": "x" * ((2 << 20) + 1)}], ids=["many", "large"])
def test_large_folders_are_refused(tmp_path, files):
    write_files(tmp_path, files)
    with pytest.raises(UserError, match=r"more than 64 files or 2 MiB of text\. Name a folder"):
        read_candidate(tmp_path, "folders")


def test_text_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "kernel.cpp").write_bytes("// 注释".encode("gbk"))
    with pytest.raises(UserError, match=r"kernel\.cpp is not text"):
        read_candidate(tmp_path, "cpp")


def test_empty_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="contains no files"):
        read_candidate(tmp_path, "cpp")


def test_other_suffixes_that_a_backend_takes():
    def candidate_with(name, text="x"):
        return Candidate(backend="folders", files={name: text})

    for name in ("kernel.asc", "kernel.txt", "op_kernel/add.cpp"):
        require_kernel_source(candidate_with(name), Folders)
    with pytest.raises(UserError, match=r"takes kernel\.asc \(or \.txt, \.cpp, \.h\), not kernel\.py"):
        require_kernel_source(candidate_with("kernel.py"), Folders)
    with pytest.raises(UserError, match=r"takes kernel\.cpp, not kernel\.txt"):
        require_kernel_source(candidate_with("kernel.txt"), Cpp)
    with pytest.raises(UserError, match="is empty"):
        require_kernel_source(candidate_with("kernel.asc", " \n"), Folders)


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", "a\\b", "a\0b"])
def test_paths_that_leave_the_folder_are_refused(tmp_path, name):
    with pytest.raises(CandidateError, match="is not a valid file name"):
        write_files(tmp_path / "in", {name: "x"})
    assert not (tmp_path / "x").exists()
