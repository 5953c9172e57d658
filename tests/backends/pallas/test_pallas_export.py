"""An exported Pallas kernel passes its own tests without this package: in interpret mode where there is no TPU."""

import pytest
import sample_export

from evokernel.core.plugins import plugin_folder

pytest.importorskip("jax")
SAMPLES = plugin_folder("backend", "pallas") / "samples"


@pytest.mark.slow(one_in=5)
def test_exported_tests_pass_for_a_good_kernel_and_fail_for_a_bad_one(tmp_path):
    task = tmp_path / "task.py"
    task.write_text((SAMPLES / "task.py").read_text().replace("ROWS = 512", "ROWS = 160"))
    good = (SAMPLES / "good" / "kernel.py").read_text()
    kernel = sample_export.export_kernel(tmp_path, task, "pallas", {"kernel.py": good})
    output = sample_export.run_tests(kernel.folder)
    assert "failed" not in output, output
    assert "PASSED" in output
    assert "::test_compiled_model_equals_eager" in output
    (kernel.folder / "kernel.py").write_text(good.replace("sharpness * (scores", "2 * sharpness * (scores"))
    output = sample_export.run_tests(kernel.folder, "-k", "matches_the_reference")
    assert "3 failed" in output, output


def test_kernel_that_asks_for_the_chip_runs_without_a_tpu(tmp_path):
    good = (SAMPLES / "good" / "kernel.py").read_text()
    kernel = sample_export.export_kernel(tmp_path, SAMPLES / "task.py", "pallas", {"kernel.py": good})
    text = (kernel.folder / "kernel_call.py").read_text()
    assert 'CHIP_KIND, CHIP_CORES = "TPU v5 lite", 1' in text
