"""Hostile candidates in a jailed process: none gets its way, and it is the layers that stop them."""

import signal
import socket
import sys

import pytest
from probes import PROBES, WITHOUT, text

from evokernel.sandbox import layers

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or bool(layers.lacking()), reason="the sandbox is incomplete here: " + "; ".join(layers.lacking())
)
SECRET = "the quick brown fox"


@pytest.fixture
def around(tmp_path):
    """What is there to be harmed: a file, a server, a socket without a file."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o640)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        abstract = f"evokernel-{tmp_path.name}"
        local.bind(f"\0{abstract}")
        local.listen()
        yield {"port": server.getsockname()[1], "abstract": abstract}
        server.setblocking(False)


@pytest.mark.parametrize("late", [False, True], ids=["loading", "loaded"])
@pytest.mark.parametrize("name", PROBES)
def test_a_probe_fails(tried, around, tmp_path, name, late):
    code, said = tried(text(name, **around), late)
    assert (code, bool(said)) in ((-signal.SIGSYS, False), (0, True)), (code, said)
    assert said.split(":")[0] in (
        "",
        "PermissionError",
        "OSError",
        "BlockingIOError",
        "MemoryError",
        "RuntimeError",
        "AssertionError",
        "ValueError",
    ), said
    assert SECRET not in said
    assert (tmp_path / "secret").read_text() == SECRET
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret"]


@pytest.mark.parametrize("name", WITHOUT)
def test_it_is_the_layers_that_stop_it(tried, around, monkeypatch, name):
    monkeypatch.setenv("EVOKERNEL_WITHOUT", WITHOUT[name])
    code, said = tried(text(name, **around))
    assert (code, said) == (0, "Harm: HARM")


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("udp", "forbidden", "asked the system"),
        ("fork", "forbidden", "asked the system"),
        ("write outside", "raised", "PermissionError"),
        ("read a secret", "raised", "PermissionError"),
        ("inherited descriptors", "raised", "AssertionError"),
        ("the environment", "raised", "AssertionError"),
        ("memory", "memory", ""),
    ],
)
def test_a_real_child_is_in_that_jail(loaded, around, monkeypatch, name, reason, words):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    found, detail = loaded(text(name, **around))
    assert (found, words in detail) == (reason, True), detail


NEEDED_BY_A_RUNTIME = {"threads", "memory", "memory that is code", "code made later", "catch a fault", "a nameless program", "no addresses"}
"""Of a card; none of them leaves the process."""


@pytest.mark.parametrize("name", sorted(PROBES.keys() - NEEDED_BY_A_RUNTIME))
def test_a_probe_fails_on_a_card(tried, around, tmp_path, name):
    code, said = tried(text(name, **around), on_card=("/dev/null",))
    assert (code, bool(said)) == (0, True), (code, said)
    assert not said.startswith("Harm"), said
    assert SECRET not in said
    assert (tmp_path / "secret").read_text() == SECRET
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret"]


def test_what_a_process_with_a_card_may_do(tried):
    """Open its device files, speak to them, use threads, keep logs, open many files; but only those devices."""
    honest = (
        "import fcntl, resource, select, threading\n"
        "card = os.open('/dev/zero', os.O_RDWR)\n"
        "try: fcntl.ioctl(card, 0x4900)\n"
        "except OSError as error: assert error.errno == 25, error\n"
        "one = threading.Thread(target=print)\none.start()\none.join()\n"
        "select.epoll()\nos.pipe()\nos.eventfd(0)\nos.mkdir('plog')\nopen('plog/one.log', 'w').write('x')\n"
        "assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 64\n"
        "try: os.open('/dev/full', os.O_RDWR)\n"
        "except PermissionError: raise ValueError('as it should be')\n"
    )
    assert tried(honest, on_card=("/dev/zero",)) == (0, "ValueError: as it should be")


def test_nothing_is_opened_once_a_kernel_is_loaded(tried):
    look = "open('/proc/self/maps').read()\nraise ValueError('seen')"
    assert tried(look) == (0, "ValueError: seen")
    assert tried(look, late=True)[1].startswith("PermissionError")


TRACED = {
    "write outside": ("trace_error", "Permission"),
    "remove outside": ("trace_error", "Permission"),
    "read a secret": ("trace_error", "Permission"),
    "link outside": ("forbidden", "asked the system"),
    "change modes outside": ("forbidden", "asked the system"),
    "udp": ("forbidden", "asked the system"),
    "fork": ("forbidden", "asked the system"),
    "signal the parent": ("forbidden", "asked the system"),
    "affinity": ("trace_error", "not permitted"),
}


@pytest.mark.parametrize("name", TRACED)
def test_a_traced_candidate_gets_no_further(traced, around, name):
    reason, detail = traced(text(name, **around).replace("where + '", "str(where) + '"))
    assert (reason, TRACED[name][1] in detail) == (TRACED[name][0], True), detail


@pytest.mark.parametrize(
    "fill",
    [
        "while True:\n    for n in range(10**6): open(f'{n}', 'wb').write(bytes(1 << 20))",
        "for n in range(10**6): open(f'{n}', 'wb').close()",
        "while True: os.mkdir('d'); os.chdir('d')",
    ],
    ids=["large files", "many files", "deep folders"],
)
def test_a_disk_is_not_filled(traced, tmp_path, fill):
    reason, detail = traced(f"import os\n{fill}\n")
    assert reason == "disk", detail
    assert not [path for path in (tmp_path / "work").iterdir() if path.is_dir()]


def test_what_a_tracer_may_do(traced):
    """Write into its folder, make folders, rename, use threads, make code."""
    honest = (
        "import mmap, threading\nopen('a', 'w').write('x')\nos.mkdir('b')\nos.rename('a', 'c')\nos.unlink('c')\n"
        "one = threading.Thread(target=print)\none.start()\none.join()\n"
        "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
    )
    assert traced(honest) == ("", "")
