"""Records models one after the other, each in a copy of this process: what a model did stays there. Prints a line of JSON for each.

Where the folder holds a plain library instead of a built extension, its functions are called through ctypes: what is launched is the same,
and PyTorch's headers, which take a minute, are not read.
"""

import ctypes
import json
import os
import sys
from pathlib import Path

import torch

from evokernel.backends.cuda.model import record
from evokernel.backends.cuda.record import explain_load_error
from evokernel.core.backend import CallShape
from evokernel.core.errors import CandidateError


def tell(folder: Path, call: CallShape) -> dict:
    try:
        (folder / "programs").mkdir(exist_ok=True)
        record.record_model(folder, {"bench": call}, folder / "programs")
    except CandidateError as error:
        return {"reason": error.reason, "detail": error.detail}
    except RuntimeError as error:
        return {"raised": str(error).splitlines()[0]}
    return {"program": (folder / "programs" / "programs.json").read_text()}


class Plain:
    """The functions of an extension, in Python."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path), os.RTLD_NOW | os.RTLD_DEEPBIND)  # as extensions are loaded

    def scaled(self, x, w, by):
        if not x.is_cuda:
            raise RuntimeError("x must be on the device")
        y = torch.empty_like(x)
        places = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (x, w, y)]
        self.library.scaled(*places, ctypes.c_int64(x.numel()), ctypes.c_float(by))
        return y

    def filled(self, like, value):
        return torch.full((like.size(0), 64), value, dtype=torch.float32, device=like.device)

    def elsewhere(self, x):
        self.library.elsewhere(ctypes.c_void_p(x.data_ptr()))
        return x


def imported(name: str, path: Path):
    try:
        return Plain(path)
    except OSError as error:
        raise explain_load_error(error) from error


def main() -> None:
    if (Path(sys.argv[1]) / "plain").exists():
        record.import_extension = imported
    folder, call = Path(sys.argv[1]), CallShape(*json.loads(sys.argv[2]))
    tensors = ([(name, kind, tuple(shape)) for name, kind, shape in part] for part in (call.inputs, call.outputs))
    call = CallShape(next(tensors), call.scalars, next(tensors))
    for text in json.load(sys.stdin):
        (folder / record.FILE).write_text(text)
        sys.stdout.flush()
        if not (pid := os.fork()):
            print(json.dumps(tell(folder, call)), flush=True)
            os._exit(0)
        os.waitpid(pid, 0)


main()
