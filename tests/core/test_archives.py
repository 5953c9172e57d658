"""Untrusted archives are extracted only into the target folder."""

import io
import tarfile

from evokernel.core import archives


def test_only_files_and_folders_inside_the_target_are_extracted(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive_file:

        def add(name, kind=tarfile.REGTYPE, link=""):
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, link, 2 if kind == tarfile.REGTYPE else 0
            archive_file.addfile(member, io.BytesIO(b"hi") if kind == tarfile.REGTYPE else None)

        add("run/file.txt")
        add("other/file.txt")
        add("../outside.txt")
        add("/tmp/absolute.txt")
        add("run/link", tarfile.SYMTYPE, "/etc/passwd")
        add("run/hard", tarfile.LNKTYPE, "other/file.txt")
        add("run/pipe", tarfile.FIFOTYPE)
    into = tmp_path / "into"
    with tarfile.open(tmp_path / "a.tar") as archive:
        assert archives.extract_archive(archive, into) == 2
        assert archives.extract_archive(archive, tmp_path / "part", "run") == 1
    assert sorted(str(path.relative_to(into)) for path in into.rglob("*") if not path.is_dir()) == ["other/file.txt", "run/file.txt"]
    assert (tmp_path / "part/run/file.txt").read_text() == "hi"
    assert not (tmp_path / "part/other").exists()
    assert not (tmp_path / "outside.txt").exists()
