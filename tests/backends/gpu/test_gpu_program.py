"""Recorded programs: what is written is read again, and what nobody honest writes is refused."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from evokernel.backends.gpu.program import (
    FILE,
    Copy,
    Fill,
    Launch,
    Pointer,
    Program,
    format_programs,
    program_key,
    read_programs,
    validate_program,
)
from evokernel.core.errors import CandidateError

LAUNCH = Launch("kernel.image", "add", (4, 1, 1), (256, 1, 1), 0, bytes(24), (Pointer(0, 0, 0), Pointer(8, 1, 16)))
PROGRAM = Program((64, 64), 1, (128,), (LAUNCH, Fill(1, 0, 0, 64), Copy(1, 0, 0, 0, 32)))


def test_programs_survive_a_round_trip(tmp_path: Path):
    (tmp_path / FILE).write_text(format_programs({"small": PROGRAM}))
    assert read_programs(tmp_path / FILE) == {"small": PROGRAM}
    validate_program(PROGRAM)


def test_constants_survive_a_round_trip(tmp_path: Path):
    made = PROGRAM._replace(constants=(b"\0\1\2\3", b""), steps=(*PROGRAM.steps, Copy(2, 0, 3, 0, 4), Fill(2, 4, 0xFF80, 8, 2)))
    (tmp_path / FILE).write_text(format_programs({"small": made}))
    assert read_programs(tmp_path / FILE) == {"small": made}
    validate_program(made)


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found["steps"][0].__setitem__(6, "not base64!"),
        lambda found: found["steps"][0].__setitem__(3, [4, 1]),
        lambda found: found["steps"][0].__setitem__(3, [-1, 1, 1]),
        lambda found: found["steps"][0].__setitem__(3, [True, 1, 1]),
        lambda found: found["steps"].append(["fill", 1, 0, 0]),
        lambda found: found.pop("tensors"),
        lambda found: found.__setitem__("scratch", [1.5]),
        lambda found: found.__setitem__("steps", "launch"),
    ],
)
def test_modified_recordings_are_refused(change, tmp_path: Path):
    found = json.loads(format_programs({"small": PROGRAM}))
    change(found["small"])
    (tmp_path / FILE).write_text(json.dumps(found))
    with pytest.raises(CandidateError) as caught:
        read_programs(tmp_path / FILE)
    assert caught.value.reason == "forbidden"


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (LAUNCH._replace(block=(1025, 1, 1)), "launch"),
        (LAUNCH._replace(block=(0, 1, 1)), "launch"),
        (LAUNCH._replace(block=(1, 1, 128)), "launch"),
        (LAUNCH._replace(grid=(0, 1, 1)), "launch"),
        (LAUNCH._replace(grid=(1, 70000, 1)), "launch"),
        (LAUNCH._replace(pointers=(Pointer(0, 7, 0),)), "out_of_bounds"),
        (LAUNCH._replace(pointers=(Pointer(0, 0, 65),)), "out_of_bounds"),
        (LAUNCH._replace(pointers=(Pointer(20, 0, 0),)), "forbidden"),
        (Fill(1, 32, 0, 64), "out_of_bounds"),
        (Fill(0, 0, 0, 64), "inputs"),
        (Fill(1, 0, 0, 64, 3), "forbidden"),
        (Fill(1, 2, 0, 32, 4), "forbidden"),
        (Fill(1, 0, 0, 30, 4), "forbidden"),
        (Copy(1, 0, 0, 60, 32), "out_of_bounds"),
    ],
)
def test_impossible_launches_are_refused(step, reason):
    with pytest.raises(CandidateError) as caught:
        validate_program(PROGRAM._replace(steps=(step,)))
    assert caught.value.reason == reason


def test_too_many_launches_are_refused(tmp_path: Path):
    (tmp_path / FILE).write_text(format_programs({"small": PROGRAM._replace(steps=(LAUNCH,) * 10_001)}))
    with pytest.raises(CandidateError) as caught:
        read_programs(tmp_path / FILE)
    assert caught.value.reason == "memory"


def test_program_key_distinguishes_shapes_types_and_scalars():
    one = program_key([("float32", (4, 5))], [("int", 3)])
    assert one == program_key([("float32", [4, 5])], [("int", 3.0)])
    assert (
        len(
            {
                one,
                program_key([("float16", (4, 5))], [("int", 3)]),
                program_key([("float32", (5, 4))], [("int", 3)]),
                program_key([("float32", (4, 5))], []),
            }
        )
        == 4
    )


@dataclass
class Memory:
    """A device whose memory is a list of bytes, for what is done around kernels."""

    data: bytearray
    used: int = 0

    def allocate(self, count):
        self.used += count
        return self.used - count

    def fill(self, place, value, count, stream=0):
        self.data[place : place + count] = bytes([value]) * count

    def download(self, target, place, count):
        import ctypes

        ctypes.memmove(target, bytes(self.data[place : place + count]), count)


def test_guards_detect_writes_next_to_a_tensor():
    from evokernel.backends.gpu.replay import GuardedBuffer

    memory = Memory(bytearray(1 << 16))
    room = GuardedBuffer(memory, 1000)
    assert room.place % 256 == 0
    memory.data[room.place : room.place + 1000] = bytes(1000)
    assert room.is_guard_intact()
    memory.data[room.place + 1000] ^= 1
    assert not room.is_guard_intact()
    room.guard()
    memory.data[room.place - 1] ^= 1
    assert not room.is_guard_intact()
