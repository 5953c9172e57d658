"""Profiler tables of all versions are read by column name."""

import sys

import pytest
from cann_toolkit import FAKE

from evokernel.backends.ascendc.cann import profiler
from evokernel.core.errors import InfraError

LAUNCHES = [{"us": us, "block_dim": 8, "busy": {"V": 0.5, "MTE2": 0.25}} for us in (12.0, 10.0, 30.0)]


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(FAKE))
    import tables

    def write(mode):
        tables.write(tmp_path / "OPPROF_1_A", "KernelCustom", mode, LAUNCHES)
        return tmp_path

    yield write
    for name in ("tables", "fake"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("operator", ["KernelCustom", "kernel_custom"])
@pytest.mark.parametrize("mode", ["", "na", "extra", "order", "newer", "two-ops", "summary", "details"])
def test_tables_of_every_version_are_read(mode, operator, written):
    found = profiler.read_profile(written(mode), operator)
    assert found.duration_us == (12.0, 10.0, 30.0)
    assert found.us == 12.0
    assert found.block_dim == 8
    assert found.figures["aiv_vec_ratio"] == 0.5
    if mode in ("summary", "details"):
        assert found.frequency is None
        return
    assert found.frequency == 1800
    assert found.figures["aiv_gm_to_ub_bw(GB/s)"] == 200.0
    assert found.figures["aiv_total_hit_rate(%)"] == 85.0
    assert "aic_cube_ratio" not in found.figures
    assert "block_id" not in {name.lower() for name in found.figures}
    assert ("aiv_mte2_ratio" in found.figures) == (mode != "na")
    assert found.figures.get("brand_new_ratio") == (0.75 if mode == "extra" else None)
    assert found.figures.get("aiv_mte2_active_bw(GB/s)") == (41.5 if mode == "newer" else None)


def test_missing_table_is_an_infra_error(tmp_path):
    with pytest.raises(InfraError, match="no table"):
        profiler.read_profile(tmp_path, "KernelCustom")


def test_unknown_tables_are_an_infra_error(tmp_path):
    (tmp_path / "Memory.csv").write_text("block_id\n0\n")
    with pytest.raises(InfraError, match=r"only Memory\.csv"):
        profiler.read_profile(tmp_path, "KernelCustom")


def test_missing_operator_is_an_infra_error(written):
    with pytest.raises(InfraError, match=r"no launch of Kernel, only of KernelCustom_9f2c_0"):
        profiler.read_profile(written(""), "Kernel")


def test_missing_duration_is_an_infra_error(tmp_path):
    (tmp_path / "OpBasicInfo.csv").write_text("Op Name,Task Duration(us),Block Dim\nKernelCustom,N/A,8\n")
    with pytest.raises(InfraError, match="no duration"):
        profiler.read_profile(tmp_path, "KernelCustom")


def test_malformed_rows_are_ignored(tmp_path):
    text = "Op Name,Task Duration(us),Block Dim\n\nKernelCustom,5.5\nKernelCustom,inf,8\nKernelCustom,7.5,8,9,10\n"
    (tmp_path / "opbasicinfo.CSV").write_text(text)
    found = profiler.read_profile(tmp_path, "KernelCustom")
    assert found.duration_us == (5.5, 7.5)
    assert found.block_dim is None
