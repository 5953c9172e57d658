"""Exported kernels stand on their own: PyTorch calls them; without a GPU, Triton's in its interpreter."""

import importlib.util
import subprocess
import sys

import pytest
import torch

from evokernel.backends.cuda.build import find_nvcc
from evokernel.core.plugins import plugin_folder
from evokernel.core.records import Candidate
from evokernel.reports.export import find_wrapper, render_template
from evokernel.tasks.loader import load_tasks


def exported(backend: str, file: str, text: str, into) -> None:
    task = load_tasks(str(plugin_folder("backend", backend) / "samples" / "task.py"))[0]
    candidate = Candidate(backend=backend, files={file: text})
    test = render_template("test_kernel.py.j2", task=task)
    into.mkdir()
    made = find_wrapper(backend)(task, candidate, {})
    for name, content in {"reference.py": task.source, "test_kernel.py": test, **candidate.files, **made}.items():
        (into / name).write_text(content)


@pytest.mark.slow(one_in=5)
def test_exported_triton_test_passes_and_can_fail(tmp_path):
    pytest.importorskip("triton")
    good = (plugin_folder("backend", "triton") / "samples" / "good" / "kernel.py").read_text()
    exported("triton", "kernel.py", good, tmp_path / "good")
    exported("triton", "kernel.py", good.replace("slope * y", "2 * slope * y"), tmp_path / "bad")
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--import-mode=importlib", "-k", "0", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "PASSED good/test_kernel.py::test_kernel_matches_the_reference[0]" in done.stdout


@pytest.mark.slow(one_in=5)
@pytest.mark.skipif(find_nvcc("") is None, reason="no nvcc")
def test_exported_cuda_kernel_gets_its_arguments_in_order(tmp_path, monkeypatch):
    """As far as there is no GPU: the library is built and loaded, and the call is seen instead of made."""
    good = (plugin_folder("backend", "cuda") / "samples" / "good" / "kernel.cu").read_text()
    exported("cuda", "kernel.cu", good, tmp_path / "good")
    monkeypatch.setenv("CUDACXX", str(find_nvcc("")))
    spec = importlib.util.spec_from_file_location("exported_model", tmp_path / "good" / "model_new.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    library = module.build("sm_90a")
    assert library == module.build("sm_90a"), "built once"
    assert b"kernel" in library.read_bytes()
    seen = []
    monkeypatch.setattr(module, "DEVICE", "cpu")
    monkeypatch.setattr(module, "call", lambda tensors, scalars, outputs: seen.append((tensors, scalars, outputs)))
    model = module.ModelNew(*module.get_init_inputs())
    (x,) = module.get_inputs()
    result = model(x)
    [(tensors, scalars, outputs)] = seen
    assert [tensor.data_ptr() for tensor in tensors] == [x.data_ptr(), model.scale.data_ptr(), model.shift.data_ptr()]
    assert scalars == [512, 0.25]
    assert torch.equal(torch.nan_to_num(result), torch.nan_to_num(outputs[0]))
    assert result.shape == x.shape
