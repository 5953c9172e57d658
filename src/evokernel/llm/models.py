"""Models that can be had without a key: which there are, where they are kept, which file a name stands for."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from evokernel.core import paths
from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean

DEFAULT = "qwen2.5-coder-1.5b"
MAGIC = b"GGUF"


class Slice(NamedTuple):
    """A part of a model's file: the member of a package that holds it."""

    package: str
    """With its version: `name==1.0`."""
    member: str
    bytes: int
    sha256: str


class Model(NamedTuple):
    """A model of the catalogue."""

    name: str
    about: str
    license: str
    bytes: int
    sha256: str
    slices: tuple[Slice, ...]

    @property
    def path(self) -> Path:
        """Where its file is kept. It comes to stand there only once it was checked."""
        return home() / f"{self.name}.gguf"

    @property
    def is_fetched(self) -> bool:
        return self.path.is_file() and self.path.stat().st_size == self.bytes


def home() -> Path:
    """The folder of fetched models."""
    return paths.tools_folder() / "models"


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Model]:
    """Every model that can be fetched, the default one first."""
    tables = tomllib.loads((Path(__file__).parent / "models.toml").read_text(encoding="utf-8"))
    known = {
        name: Model(**{**table, "name": name, "slices": tuple(Slice(**part) for part in table["slices"])}) for name, table in tables.items()
    }
    return dict(sorted(known.items(), key=lambda pair: pair[0] != DEFAULT))


def known(name: str) -> Model:
    """A model of the catalogue, or one line that names them."""
    there = catalogue()
    if name not in there:
        raise UserError(f"no model '{name}'{did_you_mean(name, list(there))}; there are: {', '.join(there)}")
    return there[name]


def file_of(name: str) -> Path:
    """The file a name or a path stands for."""
    if name.endswith(".gguf") or "/" in name:
        path = Path(name).expanduser()
        if not path.is_file():
            raise UserError(f"there is no file {path}: give the path of a model in GGUF format, or one of: {', '.join(catalogue())}")
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise UserError(f"{path} is no model in GGUF format: convert it first, or choose another")
        return path.resolve()
    model = known(name)
    if not model.is_fetched:
        raise UserError(f"model '{name}' is not here yet ({model.bytes / 1e6:.0f} MB): evokernel model fetch {name}")
    return model.path


def fetched() -> list[Model]:
    """The models that are here, the default one first."""
    return [model for model in catalogue().values() if model.is_fetched]
