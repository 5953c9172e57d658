"""A kernel on the disk: which backend it is for, which of its files are read, what is refused."""

import pytest

from evokernel.cli import kernel_files
from evokernel.cli.kernel_files import candidate, refuse_what_is_no_kernel, written_in
from evokernel.core.errors import CandidateError, UserError
from evokernel.core.paths import write_files
from evokernel.core.records import Candidate


class Cpp:
    pass


class Folders:
    file = "kernel.asc"
    takes = (".txt", ".cpp", ".h")

    @staticmethod
    def recognises(path):
        return (path / "op_kernel").is_dir() or (path.suffix == ".txt" and path.is_file() and "kernel_src" in path.read_text())


@pytest.fixture(autouse=True)
def two_backends(monkeypatch):
    monkeypatch.setattr(kernel_files, "known", lambda: {"folders": Folders, "cpp": Cpp})


@pytest.fixture
def project(tmp_path):
    made = {
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
    write_files(tmp_path / "project", made)
    (tmp_path / "project" / "picture.png").write_bytes(b"\x89PNG\0\0\xff")
    return tmp_path / "project"


def test_an_exact_name_comes_before_an_ending_before_what_is_recognised(tmp_path, project):
    write_files(
        tmp_path, {"one/kernel.cpp": "", "six.txt": "host_tiling_src = '' kernel_src = ''", "other.txt": "words", "both.d/kernel.asc": ""}
    )
    assert written_in(tmp_path / "one") == "cpp"
    assert written_in(tmp_path / "one" / "kernel.cpp") == "cpp"
    assert written_in(tmp_path / "mine.asc") == "folders"
    assert written_in(tmp_path / "both.d") == "folders"
    assert written_in(project) == "folders"
    (project / "kernel.cpp").write_text("")
    assert written_in(project) == "cpp"
    assert written_in(tmp_path / "six.txt") == "folders"
    assert written_in(tmp_path / "other.txt") == "pallas", "the default"


def test_a_folder_is_read_with_its_folders(project):
    assert candidate(project, "folders").files == {
        "CMakeLists.txt": "cmake",
        "op_host/add.cpp": "host",
        "op_kernel/add.cpp": "kernel",
        "op_kernel/deep/tiling.h": "tiling",
    }


def test_a_file_goes_by_its_ending(tmp_path):
    (tmp_path / "six parts.txt").write_text("x")
    assert candidate(tmp_path / "six parts.txt", "folders").files == {"kernel.txt": "x"}


@pytest.mark.parametrize("files", [{f"{n}.h": "x" for n in range(65)}, {"large.h": "x" * ((2 << 20) + 1)}], ids=["many", "large"])
def test_folders_with_too_much_in_them_are_refused(tmp_path, files):
    write_files(tmp_path, files)
    with pytest.raises(UserError, match="more than 64 files or 2 MiB of text: name a folder"):
        candidate(tmp_path, "folders")


def test_text_in_another_encoding_is_not_passed_over(tmp_path):
    (tmp_path / "kernel.cpp").write_bytes("// 注释".encode("gbk"))
    with pytest.raises(UserError, match=r"kernel\.cpp is not text"):
        candidate(tmp_path, "cpp")


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no files"):
        candidate(tmp_path, "cpp")


def test_other_endings_that_a_backend_takes():
    def given(name, text="x"):
        return Candidate(backend="folders", files={name: text})

    for name in ("kernel.asc", "kernel.txt", "op_kernel/add.cpp"):
        refuse_what_is_no_kernel(given(name), Folders())
    with pytest.raises(UserError, match=r"takes kernel\.asc \(or \.txt, \.cpp, \.h\), not kernel\.py"):
        refuse_what_is_no_kernel(given("kernel.py"), Folders())
    with pytest.raises(UserError, match=r"takes kernel\.cpp, not kernel\.txt"):
        refuse_what_is_no_kernel(given("kernel.txt"), Cpp())
    with pytest.raises(UserError, match="is empty"):
        refuse_what_is_no_kernel(given("kernel.asc", " \n"), Folders())


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", "a\\b", "a\0b"])
def test_names_that_lead_out_of_a_folder_are_refused(tmp_path, name):
    with pytest.raises(CandidateError, match="no name for a file"):
        write_files(tmp_path / "in", {name: "x"})
    assert not (tmp_path / "x").exists()
