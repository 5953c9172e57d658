"""Exported kernels need no part of this package: PyTorch calls them; without a GPU, Triton's in its interpreter."""

import importlib
import sys

import pytest
import sample_export
import torch

from evokernel.backends.cuda.build import find_nvcc
from evokernel.core.plugins import plugin_folder


def export_sample(backend: str, file: str, into):
    samples = plugin_folder("backend", backend) / "samples"
    return sample_export.export_kernel(into, samples / "task.py", backend, {file: (samples / "good" / file).read_text()})


@pytest.mark.slow(one_in=5)
def test_exported_triton_tests_pass_and_can_fail(tmp_path):
    pytest.importorskip("triton")
    kernel = export_sample("triton", "kernel.py", tmp_path)
    output = sample_export.run_tests(kernel.folder)
    assert "failed" not in output, output
    assert "::test_compiled_model_equals_eager" in output
    source = kernel.folder / "kernel.py"
    source.write_text(source.read_text().replace("slope * y", "2 * slope * y"))
    assert "1 failed" in sample_export.run_tests(kernel.folder, "-k", "matches_the_reference and 0-reference_small")


@pytest.mark.slow(one_in=5)
def test_exported_cuda_tests_are_skipped_with_a_reason_without_a_gpu(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    output = sample_export.run_tests(export_sample("cuda", "kernel.cu", tmp_path).folder)
    assert "no NVIDIA GPU" in output
    assert "passed" not in output
    assert "failed" not in output


@pytest.mark.slow(one_in=5)
@pytest.mark.skipif(find_nvcc("") is None, reason="no nvcc")
def test_exported_cuda_kernel_gets_its_arguments_in_order(tmp_path, monkeypatch):
    """Without a GPU: the library is built and loaded, and a recorder replaces the launch."""
    kernel = export_sample("cuda", "kernel.cu", tmp_path)
    monkeypatch.setenv("CUDACXX", str(find_nvcc("")))
    monkeypatch.syspath_prepend(str(kernel.folder.parents[1]))
    module = importlib.import_module(f"{kernel.folder.parent.name}.{kernel.folder.name}")
    kernel_call = sys.modules[f"{module.__name__}.kernel_call"]
    library = kernel_call.build(kernel_call.find_compiler(), [*kernel_call.FLAGS, "-arch=sm_90a"])
    assert library == kernel_call.build(kernel_call.find_compiler(), [*kernel_call.FLAGS, "-arch=sm_90a"]), "built once"
    assert b"kernel" in library.read_bytes()
    calls = []
    monkeypatch.setattr(kernel_call, "DEVICE", "cpu")
    monkeypatch.setattr(kernel_call, "prepare", lambda: None)
    monkeypatch.setattr(kernel_call, "call", lambda tensors, numbers, outputs: calls.append((tensors, numbers, outputs)))
    model = module.ModelNew(*module.get_init_inputs())
    (x,) = module.get_inputs()
    result = model(x)
    [(tensors, numbers, outputs)] = calls
    assert [tensor.data_ptr() for tensor in tensors] == [x.data_ptr(), model.scale.data_ptr(), model.shift.data_ptr()]
    assert numbers == [512, 0.25]
    assert result.data_ptr() == outputs[0].data_ptr()
    assert result.shape == x.shape
