"""Building C++ kernels with the real compiler."""

import os
import platform
import stat
import sys
from pathlib import Path

import pytest
from time_limits import growing_limits, wait_until

from evokernel.backends.cpp import plugin as CppBackend
from evokernel.backends.cpp.abi import annotated_prototype, c_prototype
from evokernel.backends.cpp.ceilings import NOMINAL, Ceilings, load_or_measure_ceilings, read_last_level_bytes
from evokernel.backends.cpp.profile import diagnose
from evokernel.backends.cpp.screen import screen_rules
from evokernel.backends.native import toolchain
from evokernel.backends.native.diagnostics import summarize_errors
from evokernel.backends.native.elf import read_elf, read_symbols
from evokernel.core.errors import CandidateError, UserError
from evokernel.core.plugins import plugin_folder
from evokernel.core.records import Candidate, ScalarArgument, Signature, Task, Tensor, Work

pytestmark = pytest.mark.toolchain

needs_compiler = pytest.mark.skipif(CppBackend().unavailable_reason() is not None, reason="no C++ compiler")
SIGNATURE = Signature(
    inputs=(Tensor(name="x", dtype="float32", shape=(8, 4)), Tensor(name="index", dtype="int64", shape=(8,))),
    params=(Tensor(name="weight", dtype="bfloat16", shape=(4,)),),
    scalars=(ScalarArgument(name="eps", kind="float", value=1e-5), ScalarArgument(name="keep", kind="bool", value=1)),
    outputs=(Tensor(name="out", dtype="float64", shape=()),),
)
HEAD = c_prototype(SIGNATURE) + " {\n"


def task(flops=1e6, nbytes=1e6, outputs=SIGNATURE.outputs):
    signature = SIGNATURE.model_copy(update={"outputs": outputs})
    return Task(id="t/x", family="f", source="", signature=signature, work=Work(flops=flops, bytes=nbytes), sizes={})


def build(code, workdir, **settings):
    CppBackend(**settings).build(task(), Candidate(backend="cpp", files={"kernel.cpp": code}), workdir)


def build_error(code, workdir, **settings):
    with pytest.raises(CandidateError) as caught:
        build(code, workdir, **settings)
    return caught.value.reason, caught.value.detail


def test_prototype_lists_every_argument_in_order():
    assert c_prototype(SIGNATURE) == (
        'extern "C" void kernel(const float* x, const int64_t* x_shape, const int64_t* index, const int64_t* index_shape, '
        "const uint16_t* weight, const int64_t* weight_shape, double eps, bool keep, double* out, const int64_t* out_shape)"
    )
    text = annotated_prototype(SIGNATURE)
    assert "input: float32 [8, 4] at bench size" in text
    assert "bfloat16 bit patterns" in text
    assert "one element" in text


@needs_compiler
def test_library_exports_only_the_entry_point(tmp_path):
    other = 'extern "C" __attribute__((visibility("default"))) int other() { return 2; }'
    build(f"int helper() {{ return 1; }}\n{other}\n{HEAD} *out = 1; }}", tmp_path)
    assert read_symbols(tmp_path / "kernel.so").exported_names == ("kernel",)


@needs_compiler
def test_math_and_container_headers_build(tmp_path):
    code = "#include <vector>\n#include <numeric>\n#include <unordered_map>\n#include <string>\n#include <random>\n"
    body = (
        "std::vector<double> v(x_shape[0]); std::unordered_map<int, float> m; m[x_shape[0]] = 1;\n"
        "std::sort(v.begin(), v.end()); if (v.empty()) throw std::bad_alloc();\n"
        "double s = std::accumulate(v.begin(), v.end(), 0.0) + std::erf(x[0]) + std::pow(x[1], x[2]) + std::tgamma(x[3]);\n"
        "std::mt19937 g(1); s += (double)g();\n"
        "#pragma omp parallel for reduction(+ : s)\nfor (int i = 0; i < 8; ++i) s += std::exp(x[i]) + std::fma(x[i], 2.0f, 1.0f);\n"
        "float* p = new float[8]; s += p[0]; delete[] p; *out = s + m.size(); }"
    )
    build(code + HEAD + body, tmp_path)
    assert "kernel" in read_symbols(tmp_path / "kernel.so").exported_names


@needs_compiler
def test_compile_errors_show_source_lines_without_paths(tmp_path):
    reason, detail = build_error("// one\n" + HEAD + "  float y = undefined_thing;\n}\n", tmp_path)
    assert reason == "compile_error"
    assert detail.startswith("line 3: error: 'undefined_thing' was not declared")
    assert "    float y = undefined_thing;" in detail
    assert "^" in detail
    assert str(tmp_path) not in detail


@needs_compiler
def test_wrong_signature_error_shows_the_required_prototype(tmp_path):
    reason, detail = build_error('extern "C" void kernel(float* x) {}', tmp_path)
    assert reason == "compile_error"
    assert c_prototype(SIGNATURE) in detail


@needs_compiler
@pytest.mark.parametrize("name", ["cblas_sgemm", "getppid", "pthread_create", "puts", "_exit", "memfd_create", "omp_get_wtime"])
def test_imported_system_functions_are_refused(name, tmp_path):
    assert not screen_rules().allowed_symbols.fullmatch(name)
    reason, detail = build_error(f'extern "C" int {name}(int);\n{HEAD} *out = {name}(1); }}', tmp_path)
    assert reason == "forbidden"
    assert name in detail


ODD = {
    "runs code while": "static volatile int seen; struct Early { Early() { seen = 1; } }; static Early early;\n",
    "MiB of data": "static int room[1 << 19] = {1};\n",
}


@needs_compiler
@pytest.mark.parametrize("words", ODD)
def test_suspicious_object_features_are_refused(words, tmp_path):
    body = " *out = room[x_shape[0]]; room[1] = x[0]; }" if "room" in ODD[words] else " *out = 1; }"
    reason, detail = build_error(ODD[words] + HEAD + body, tmp_path)
    assert reason == "forbidden"
    assert words in detail


@needs_compiler
@pytest.mark.skipif(platform.machine() != "aarch64", reason="instructions are checked on aarch64 only")
@pytest.mark.parametrize("instruction", ["svc 0", "msr fpcr, x0", "mrs x0, cntvct_el0"])
def test_system_instructions_in_the_object_are_refused(instruction, tmp_path):
    reason, detail = build_error(f'{HEAD} asm volatile("{instruction}" ::: "x0"); *out = 1; }}', tmp_path)
    assert reason == "forbidden"
    assert "make system calls" in detail


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="ELF only")
def test_constants_are_not_executable(tmp_path):
    build(f"static const int table[] = {{1, 2, 3}};\n{HEAD} *out = table[x_shape[0] % 3]; }}", tmp_path)
    built = read_elf(tmp_path / "kernel.so")
    constants = [one for one in built.sections if one.flags == 2 and one.kind == 1]
    executable = [one for one in built.segments if one.kind == 1 and one.flags & 1]
    assert constants
    assert executable
    assert not [one for one in constants for two in executable if two.address <= one.address < two.address + two.in_memory]


def test_error_summary_omits_template_noise():
    noise = (
        "In file included from a.h:1,\n                 from kernel.cpp:1:\n"
        "/usr/include/c++/12/bits/stl_algo.h: In instantiation of 'void f(T) [with T = int]':\n"
        "kernel.cpp:3:7:   required from here\n"
        "/usr/include/c++/12/bits/stl_algo.h:1955:50: error: no match for 'operator-' [with _It = x]\n"
        "kernel.cpp:4:2: note: candidate\n"
        "kernel.cpp:9:1: error: second\n    9 | foo\n      | ^~~\n"
        "kernel.cpp:9:2: error: third\nkernel.cpp:9:3: error: fourth\n"
    )
    text = summarize_errors(noise, {"kernel.cpp": "\n" * 8 + "foo\n"})
    assert text.splitlines()[0] == "stl_algo.h: error: no match for 'operator-'"
    assert "line 9: error: second\n    foo\n    ^~~" in text
    assert "note" not in text
    assert text.endswith("(and 1 more errors)")


def test_missing_compiler_message_names_the_fix(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert CppBackend().unavailable_reason() == "there is no C++ compiler; install g++ (apt install g++) or set backend.compiler"
    assert "icpx" in CppBackend(compiler="icpx").unavailable_reason()


def fake_compiler(path: Path, script: str) -> str:
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_hanging_compiler_is_killed_with_its_children(tmp_path, monkeypatch):
    note = tmp_path / "pid"
    compiler = fake_compiler(tmp_path / "cc", f"sleep 900 &\necho $! > {note}\nsleep 900\n")
    for limit_s in growing_limits(lambda: note.exists() and note.read_text()):
        assert toolchain.run_compiler(compiler, ["x"], tmp_path, limit_s).timed_out
    process = Path(f"/proc/{int(note.read_text())}")
    wait_until(lambda: not process.exists() or ") Z" in (process / "stat").read_text(), "it lives on")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("kill -9 $$", "killed"),
        ("echo 'g++: fatal error: Killed signal terminated program cc1plus'; exit 1", "killed"),
        ("echo 'collect2: fatal error: ld terminated with signal 9 [Killed]'; exit 1", "killed"),
        ("echo 'cc1plus: out of memory allocating 65536 bytes'; exit 1", "memory"),
        ("exit 1", "compile_error"),
    ],
)
def test_failed_build_is_attributed_to_its_cause(tmp_path, script, reason):
    compiler = fake_compiler(tmp_path / "cc", f'[ "$1" = --version ] && exit 0\n{script}\n')
    work = tmp_path / "work"
    work.mkdir()
    assert build_error(HEAD + "}", work, compiler=compiler)[0] == reason


def test_build_timeout_is_the_candidates_fault(tmp_path):
    compiler = fake_compiler(tmp_path / "cc", '[ "$1" = --version ] && exit 0\nsleep 60\n')
    work = tmp_path / "work"
    work.mkdir()
    assert build_error(HEAD + "}", work, compiler=compiler, build_timeout_s=0.3)[0] == "build_timeout"


@pytest.mark.parametrize("text", ["/usr/bin/ld: cannot find -lomp", "g++: fatal error: cannot execute 'cc1plus': No such file"])
def test_incomplete_compiler_is_a_user_error(tmp_path, text):
    compiler = fake_compiler(tmp_path / "cc", f"""[ "$1" = --version ] && exit 0\necho "{text}"; exit 1\n""")
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(UserError, match="is incomplete"):
        build(HEAD + "}", work, compiler=compiler)


@needs_compiler
def test_compiler_without_march_native_still_builds(tmp_path):
    real = toolchain.find_compiler("")
    guard = 'for a in "$@"; do [ "$a" = -march=native ] && { echo "error: bad value for -march=native"; exit 1; }; done\n'
    compiler = fake_compiler(tmp_path / "cc", f'{guard}exec {real} "$@"\n')
    work = tmp_path / "work"
    work.mkdir()
    build(HEAD + "*out = 1; }", work, compiler=compiler)
    assert (work / "kernel.so").exists()


@needs_compiler
def test_ceilings_are_measured_once_and_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path))
    load_or_measure_ceilings.cache_clear()
    first = load_or_measure_ceilings("", "")
    assert min(first[:4]) > 0
    assert first.cache_gbs >= first.memory_gbs * 0.5
    load_or_measure_ceilings.cache_clear()
    assert load_or_measure_ceilings("", "") == first  # a second measurement would differ
    load_or_measure_ceilings.cache_clear()


def test_profile_names_the_nearer_ceiling():
    assert diagnose(task(flops=1e6, nbytes=8e6), 1000, NOMINAL).bottleneck == "memory"
    assert diagnose(task(flops=1e8, nbytes=1e6), 5000, NOMINAL).bottleneck == "compute"
    assert diagnose(task(flops=1e6, nbytes=1e6), 100_000, NOMINAL).bottleneck == "latency"
    assert diagnose(task(flops=100, nbytes=400), 2, NOMINAL).bottleneck == "overhead"
    assert "less work than the reference" in diagnose(task(flops=1e9, nbytes=1e6), 1000, NOMINAL).summary


def test_data_in_the_last_level_cache_move_faster_than_memory():
    machine = Ceilings(memory_gbs=16, cache_gbs=130, gflops=150, cache_bytes=1 << 19, last_level_bytes=36e6)
    cached = diagnose(task(flops=131072, nbytes=1 << 20), 24, machine)
    assert "The data fit into the cache" in cached.summary
    assert "touch each byte" not in cached.summary
    assert "less work" not in cached.summary
    assert cached.figures["roofline_us"] < 24
    assert cached.opportunities == ()
    slower = diagnose(task(flops=131072, nbytes=1 << 20), 100, machine)
    assert "less time than the floor is possible" in slower.summary
    assert slower.figures["roofline_us"] == pytest.approx((1 << 20) / 16e3, rel=1e-3)


def test_a_latency_below_the_floor_refutes_the_ceiling():
    for flops, nbytes in ((1e6, 8e6), (1e8, 1e6)):
        profile = diagnose(task(flops=flops, nbytes=nbytes), 600 if nbytes > flops else 2000, NOMINAL)
        assert "measured on a busy machine" in profile.summary
        assert "roofline_us" not in profile.figures
        assert profile.opportunities == ()


def test_size_of_the_last_level_cache(tmp_path):
    for number, size in enumerate(("32K", "1024K", "36608K")):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(f"{size}\n")
    assert read_last_level_bytes(tmp_path) == 36608 * 1024
    assert read_last_level_bytes(tmp_path / "missing") == 0


def test_gap_to_the_roofline_is_an_estimated_opportunity():
    for flops, nbytes, us, cause in ((1e6, 8e6, 1000, "excess_traffic"), (1e8, 1e6, 5000, "vector_work"), (100, 400, 2, "launch")):
        profile = diagnose(task(flops=flops, nbytes=nbytes), us, NOMINAL)
        (row,) = profile.opportunities
        assert (row.cause, row.gain_us) == (cause, pytest.approx(us - profile.figures["roofline_us"], abs=1e-3))
        assert row.summary.startswith("Estimate from the roofline")
        assert (plugin_folder("backend", "cpp") / "knowledge" / f"{row.card}.md").is_file()
    assert diagnose(task(flops=1e6, nbytes=8e6), 805, NOMINAL).opportunities == ()


def test_time_floor_counts_output_bytes():
    outputs = (Tensor(name="out", dtype="float32", shape=(1000, 1000)),)
    figures = diagnose(task(outputs=outputs), 1000, NOMINAL).figures
    assert figures["writing_us"] == pytest.approx(4e6 / (NOMINAL.cache_gbs * 4) / 1e3)
    assert diagnose(task(nbytes=8e6), 1000, NOMINAL).figures["moving_us"] == pytest.approx(8e6 / (NOMINAL.cache_gbs * 4) / 1e3)


def test_outputs_larger_than_the_cache_have_a_higher_time_floor():
    small, large = ((Tensor(name="out", dtype="float32", shape=(rows, 1 << 20)),) for rows in (16, 17))
    floors = [diagnose(task(outputs=outputs), 1e6, NOMINAL).figures["writing_us"] for outputs in (small, large)]
    assert floors[0] == pytest.approx((16 << 22) / (NOMINAL.cache_gbs * 4) / 1e3)
    assert floors[1] == pytest.approx((17 << 22) / (NOMINAL.memory_gbs * 3) / 1e3)
