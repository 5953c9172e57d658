"""A package index on the loopback interface that pip can download from, with optional failures."""

from __future__ import annotations

import io
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def make_wheel(name: str, version: str, members: dict[str, bytes]) -> bytes:
    """A wheel that contains these files."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    files = {
        **members,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as package:
        for path, data in {**files, f"{info}/RECORD": record.encode()}.items():
            package.writestr(path, data)
    return out.getvalue()


BACKEND = """
from pathlib import Path
def prepare_metadata_for_build_wheel(folder, settings=None):
    info = Path(folder, "%s.dist-info")
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n")
    return info.name
"""


def make_archive(name: str, version: str, files: dict[str, bytes]) -> bytes:
    """A source archive that contains these files, whose metadata pip can read without dependencies."""
    top = f"{name.replace('-', '_')}-{version}"
    own_files = {
        "pyproject.toml": b'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": (BACKEND % (top, name, version)).encode(),
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for path, data in {**own_files, **files}.items():
            member = tarfile.TarInfo(f"{top}/{path}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


class PackageIndex:
    """`with PackageIndex() as index: index.put("name", "1.0", {...})`; pip finds it at `index.url`."""

    def __init__(self) -> None:
        self.wheels: dict[str, tuple[str, bytes]] = {}
        self.truncated: set[str] = set()
        """Packages whose download breaks off in the middle."""
        self.downloads: list[str] = []

    def put(self, name: str, version: str, members: dict[str, bytes]) -> None:
        self.wheels[name] = (f"{name.replace('-', '_')}-{version}-py3-none-any.whl", make_wheel(name, version, members))

    def put_source(self, name: str, version: str, files: dict[str, bytes]) -> bytes:
        data = make_archive(name, version, files)
        self.wheels[name] = (f"{name.replace('-', '_')}-{version}.tar.gz", data)
        return data

    def __enter__(self) -> PackageIndex:
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"index": self}))
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/simple"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.http.shutdown()
        self.http.server_close()


class Handler(BaseHTTPRequestHandler):
    index: PackageIndex

    def do_GET(self) -> None:
        name = self.path.strip("/").split("/")[1]
        if name not in self.index.wheels:
            self.send_error(404)
            return
        file, data = self.index.wheels[name]
        if self.path.endswith((".whl", ".tar.gz")):
            self.index.downloads.append(name)
            self.answer("application/octet-stream", data, len(data) // 2 if name in self.index.truncated else len(data))
        else:
            page = f'<!DOCTYPE html><html><body><a href="/files/{name}/{file}">{file}</a></body></html>'.encode()
            self.answer("text/html", page, len(page))

    def answer(self, kind: str, data: bytes, size: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:size])

    def log_message(self, *words: object) -> None:
        pass
