"""Hostile candidates in a sandboxed process: every attack fails, and the sandbox layers stop it."""

import signal
import socket
import sys

import pytest
from hostile_probes import PROBES, STOPPING_LAYERS, make_candidate_text

from evokernel.sandbox import layers

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or bool(layers.describe_missing_layers()),
    reason="the sandbox is incomplete on this machine: " + "; ".join(layers.describe_missing_layers()),
)
SECRET = "the quick brown fox"


@pytest.fixture
def targets(tmp_path):
    """Targets of the attacks: a file, a server and an abstract socket."""
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
def test_attack_fails(run_probe, targets, tmp_path, name, late):
    code, message = run_probe(make_candidate_text(name, **targets), late)
    assert (code, bool(message)) in ((-signal.SIGSYS, False), (0, True)), (code, message)
    assert message.split(":")[0] in (
        "",
        "PermissionError",
        "OSError",
        "BlockingIOError",
        "MemoryError",
        "RuntimeError",
        "AssertionError",
        "ValueError",
    ), message
    assert SECRET not in message
    assert (tmp_path / "secret").read_text() == SECRET
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret"]


@pytest.mark.parametrize("name", STOPPING_LAYERS)
def test_attack_succeeds_without_its_layers(run_probe, targets, monkeypatch, name):
    monkeypatch.setenv("EVOKERNEL_SANDBOX_DISABLE", STOPPING_LAYERS[name])
    code, message = run_probe(make_candidate_text(name, **targets))
    assert (code, message) == (0, "Harm: HARM")


@pytest.mark.parametrize(
    ("name", "reason", "expected_text"),
    [
        ("udp", "forbidden", "disallowed system call"),
        ("fork", "forbidden", "disallowed system call"),
        ("write outside", "raised", "PermissionError"),
        ("read a secret", "raised", "PermissionError"),
        ("inherited descriptors", "raised", "AssertionError"),
        ("the environment", "raised", "AssertionError"),
        ("memory", "memory", ""),
    ],
)
def test_real_candidate_process_is_sandboxed(load_candidate, targets, monkeypatch, name, reason, expected_text):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    actual_reason, detail = load_candidate(make_candidate_text(name, **targets))
    assert (actual_reason, expected_text in detail) == (reason, True), detail


ALLOWED_FOR_DEVICE_RUNTIMES = {
    "threads",
    "memory",
    "memory that is code",
    "code made later",
    "catch a fault",
    "a nameless program",
    "no addresses",
}
"""None of these affects anything outside the process."""


@pytest.mark.parametrize("name", sorted(PROBES.keys() - ALLOWED_FOR_DEVICE_RUNTIMES))
def test_attack_fails_with_device_files(run_probe, targets, tmp_path, name):
    code, message = run_probe(make_candidate_text(name, **targets), device_files=("/dev/null",))
    assert (code, bool(message)) == (0, True), (code, message)
    assert not message.startswith("Harm"), message
    assert SECRET not in message
    assert (tmp_path / "secret").read_text() == SECRET
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret"]


def test_process_with_device_files_can_do_its_work(run_probe):
    """It opens its device files, calls ioctl, uses threads, writes logs and opens many files; other devices stay closed."""
    honest = (
        "import fcntl, resource, select, threading\n"
        "card = os.open('/dev/zero', os.O_RDWR)\n"
        "try: fcntl.ioctl(card, 0x4900)\n"
        "except OSError as error: assert error.errno == 25, error\n"
        "one = threading.Thread(target=print)\none.start()\none.join()\n"
        "select.epoll()\nos.pipe()\nos.eventfd(0)\nos.mkdir('plog')\nopen('plog/one.log', 'w').write('x')\n"
        "assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 64\n"
        "try: os.open('/dev/full', os.O_RDWR)\n"
        "except PermissionError: raise ValueError('access denied')\n"
    )
    assert run_probe(honest, device_files=("/dev/zero",)) == (0, "ValueError: access denied")


def test_no_file_can_be_opened_after_loading(run_probe):
    read_maps = "open('/proc/self/maps').read()\nraise ValueError('seen')"
    assert run_probe(read_maps) == (0, "ValueError: seen")
    assert run_probe(read_maps, late=True)[1].startswith("PermissionError")


TRACED_FAILURES = {
    "write outside": ("trace_error", "Permission"),
    "remove outside": ("trace_error", "Permission"),
    "read a secret": ("trace_error", "Permission"),
    "link outside": ("forbidden", "disallowed system call"),
    "change modes outside": ("forbidden", "disallowed system call"),
    "udp": ("forbidden", "disallowed system call"),
    "fork": ("forbidden", "disallowed system call"),
    "signal the parent": ("forbidden", "disallowed system call"),
    "affinity": ("trace_error", "not permitted"),
}


@pytest.mark.parametrize("name", TRACED_FAILURES)
def test_attack_of_a_traced_candidate_fails(trace_candidate, targets, name):
    reason, detail = trace_candidate(make_candidate_text(name, **targets).replace("where + '", "str(where) + '"))
    assert (reason, TRACED_FAILURES[name][1] in detail) == (TRACED_FAILURES[name][0], True), detail


@pytest.mark.parametrize(
    "fill",
    [
        "while True:\n    for n in range(10**6): open(f'{n}', 'wb').write(bytes(1 << 20))",
        "for n in range(10**6): open(f'{n}', 'wb').close()",
        "while True: os.mkdir('d'); os.chdir('d')",
    ],
    ids=["large files", "many files", "deep folders"],
)
def test_disk_quota_stops_a_candidate(trace_candidate, tmp_path, fill):
    reason, detail = trace_candidate(f"import os\n{fill}\n")
    assert reason == "disk", detail
    assert not [path for path in (tmp_path / "work").iterdir() if path.is_dir()]


def test_tracing_process_can_do_its_work(trace_candidate):
    """It writes to its folder, creates and renames files, uses threads and generates code."""
    honest = (
        "import mmap, threading\nopen('a', 'w').write('x')\nos.mkdir('b')\nos.rename('a', 'c')\nos.unlink('c')\n"
        "one = threading.Thread(target=print)\none.start()\none.join()\n"
        "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
    )
    assert trace_candidate(honest) == ("", "")
