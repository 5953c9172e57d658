"""The catalogue of models that run on this machine without an API key, and where their files are stored."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from evokernel.core import paths
from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean

DEFAULT_MODEL = "qwen2.5-coder-1.5b"
GGUF_MAGIC = b"GGUF"


class ModelSlice(NamedTuple):
    """A part of a model's file, and the package member that contains it."""

    package: str
    """With its version: `name==1.0`."""
    member: str
    bytes: int
    sha256: str


class CatalogueModel(NamedTuple):
    """A model of the catalogue."""

    name: str
    description: str
    license: str
    bytes: int
    sha256: str
    slices: tuple[ModelSlice, ...]

    @property
    def path(self) -> Path:
        """The path of its file, which exists only after the checksum was verified."""
        return models_folder() / f"{self.name}.gguf"

    @property
    def is_downloaded(self) -> bool:
        return self.path.is_file() and self.path.stat().st_size == self.bytes


def models_folder() -> Path:
    """The folder of downloaded models."""
    return paths.tools_folder() / "models"


@lru_cache(maxsize=1)
def load_catalogue() -> dict[str, CatalogueModel]:
    """All models that can be downloaded, by name, the default model first."""
    tables = tomllib.loads((Path(__file__).parent / "models.toml").read_text(encoding="utf-8"))
    models = {
        name: CatalogueModel(**{**table, "name": name, "slices": tuple(ModelSlice(**part) for part in table["slices"])})
        for name, table in tables.items()
    }
    return dict(sorted(models.items(), key=lambda pair: pair[0] != DEFAULT_MODEL))


def find_model(name: str) -> CatalogueModel:
    """The model with this name; UserError that lists all names if there is none."""
    catalogue = load_catalogue()
    if name not in catalogue:
        raise UserError(f"no model '{name}'{did_you_mean(name, list(catalogue))}; there are: {', '.join(catalogue)}")
    return catalogue[name]


def resolve_model_file(name: str) -> Path:
    """The GGUF file of a catalogue name or a path."""
    if name.endswith(".gguf") or "/" in name:
        path = Path(name).expanduser()
        if not path.is_file():
            raise UserError(f"there is no file {path}: give the path of a model in GGUF format, or one of: {', '.join(load_catalogue())}")
        with path.open("rb") as file:
            if file.read(len(GGUF_MAGIC)) != GGUF_MAGIC:
                raise UserError(f"{path} is not a model in GGUF format: convert it first, or choose another")
        return path.resolve()
    model = find_model(name)
    if not model.is_downloaded:
        raise UserError(f"model '{name}' is not downloaded yet ({model.bytes / 1e6:.0f} MB): evokernel model fetch {name}")
    return model.path


def list_downloaded_models() -> list[CatalogueModel]:
    """The downloaded models, the default model first."""
    return [model for model in load_catalogue().values() if model.is_downloaded]
