"""A launch function is recorded where there is no GPU: what it launches, with what, and what it may not ask for."""

from pathlib import Path

import pytest

from evokernel.app.factory import require_backend
from evokernel.backends.cuda.build import find_nvcc, normalize_messages
from evokernel.backends.gpu.program import FILE, Copy, Fill, Launch, SymbolCopy, read_programs, validate_program
from evokernel.core.config import resolve_config
from evokernel.core.errors import CandidateError, UserError
from evokernel.core.plugins import make_plugin, plugin_folder
from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks
from evokernel.verifier.evaluators import open_trial

HOME = plugin_folder("backend", "cuda") / "samples"
pytestmark = pytest.mark.skipif(find_nvcc("") is None, reason="no nvcc")
TEXT = """
template <int N> __global__ void twice(const float* x, float* y, int64_t n, float by) {
  extern __shared__ float t[];
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = N * x[i] * by;
}
struct Both { float* y; int64_t n; };
__global__ void again(Both both) { if (threadIdx.x < both.n) both.y[threadIdx.x] += 0.0f; }
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape, cudaStream_t stream) {
  int64_t n = x_shape[0] * x_shape[1];
  int cores = 0;
  cudaDeviceGetAttribute(&cores, cudaDevAttrMultiProcessorCount, 0);
  float* scratch;
  cudaMallocAsync((void**)&scratch, 4 * n, stream);
  cudaMemsetAsync(out, 0, 4 * n, stream);
  cudaFuncSetAttribute(twice<3>, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000);
  twice<3><<<dim3((n + 255) / 256, 1, 1), 256, 65536, stream>>>(x, scratch + 8, n, 0.5f);
  again<<<cores, 32, 0, stream>>>(Both{out, n});
}
"""


@pytest.fixture
def never():
    return make_plugin("backend", "cuda", device="never")


def recorded(backend, text: str, workdir: Path) -> dict:
    task = load_tasks("starter/gelu")[0]
    job = Job(backend="cuda", settings={"device": "never"}, task=task, candidate=Candidate(backend="cuda", files={"kernel.cu": text}))
    with open_trial(job, backend, workdir) as trial:
        trial.evaluator.screen(trial)
        trial.evaluator.build(trial)
        return read_programs(workdir / "programs" / FILE)


@pytest.mark.slow(one_in=5)
def test_launches_are_recorded(never, tmp_path):
    found = recorded(never, TEXT, tmp_path)
    assert len(found) == len(set(found)) >= 3, "one for every size"
    program = next(one for one in found.values() if one.tensors == (512 * 1024 * 4,) * 2)
    fill, first, second = program.steps
    assert program.scratch == (512 * 1024 * 4,)
    assert fill == Fill(1, 0, 0, 512 * 1024 * 4)
    assert isinstance(first, Launch)
    assert (first.grid, first.block, first.shared) == ((2048, 1, 1), (256, 1, 1), 65536)
    assert [(one.tensor, one.offset) for one in first.pointers] == [(0, 0), (2, 32)]
    assert (second.grid, second.block) == ((132, 1, 1), (32, 1, 1)), "the nominal device has 132 multiprocessors"
    assert [(one.at, one.tensor) for one in second.pointers] == [(0, 1)], "a pointer inside of a struct"
    assert "twice" in first.function
    assert list((tmp_path / "programs").glob("*.image"))


def test_adjacent_sizes_are_not_taken_for_a_pointer(never, tmp_path):
    head = """
struct Sizes { int whole[31][2]; float real[128][2]; };
__global__ void sizes(float* y, const Sizes given) { y[0] = given.whole[threadIdx.x][1] + given.real[threadIdx.x][1]; }"""
    body = """
  Sizes given;
  for (int k = 0; k < 31; k++) given.whole[k][0] = 16, given.whole[k][1] = 1 << k;
  for (int k = 0; k < 128; k++) given.real[k][0] = 0, given.real[k][1] = ldexpf(1.0f, k - 64);
  sizes<<<1, 1, 0, stream>>>(out, given);
}"""
    found = recorded(never, head + TEXT[: TEXT.index("  int cores")] + body, tmp_path)
    assert [[(one.at, one.tensor) for one in program.steps[0].pointers] for program in found.values()] == [[(0, 1)]] * len(found)


SET = "cudaMemsetAsync(out, 0, 4 * n, stream);"


@pytest.mark.parametrize(
    ("old", "new", "reason", "words"),
    [
        ("32, 0, stream>>>(Both", "32>>>(Both", "stream", "pass `stream`"),
        (SET, "cudaStream_t s; cudaStreamCreate(&s);", "forbidden", "cudaStreamCreate"),
        (SET, "float h = x[0]; out[0] = h;", "crash", "signal"),
        (
            "cudaMemsetAsync(out, 0, 4 * n, stream);",
            "float h; cudaMemcpyAsync(&h, x, 4, cudaMemcpyDefault, stream);",
            "unsupported",
            "host",
        ),
    ],
)
def test_forbidden_launch_code_is_refused(never, tmp_path, old, new, reason, words):
    with pytest.raises(CandidateError) as caught:
        recorded(never, TEXT.replace(old, new), tmp_path)
    assert caught.value.reason == reason
    assert words in caught.value.detail or reason == "crash"


@pytest.mark.slow(one_in=5)
def test_tensor_maps_and_host_copies_are_recorded(never, tmp_path):
    head = "#include <cuda.h>\n__constant__ float kept[2];\n"
    head += "__global__ void tiles(const __grid_constant__ CUtensorMap map, float* y) { *y = kept[0]; }"
    body = """
  CUtensorMap map;
  const cuuint64_t sizes[] = {(cuuint64_t)x_shape[1], (cuuint64_t)x_shape[0]}, strides[] = {(cuuint64_t)x_shape[1] * 4};
  const cuuint32_t box[] = {64, 8}, steps[] = {1, 1};
  cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void*)x, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                         CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  float two = 2.0f;
  cudaMemcpyToSymbolAsync(kept, &two, 4, 4, cudaMemcpyHostToDevice, stream);
  cudaMemcpyToSymbolAsync(kept, x, 4, 0, cudaMemcpyDeviceToDevice, stream);
  cudaMemcpyAsync(out, &two, 4, cudaMemcpyHostToDevice, stream);
  tiles<<<1, 1, 0, stream>>>(map, out);
}"""
    found = recorded(never, head + TEXT[: TEXT.index("  int cores")] + body, tmp_path)
    program = next(one for one in found.values() if one.tensors == (512 * 1024 * 4,) * 2)
    validate_program(program)
    first, second, third, launch = program.steps
    assert program.constants == (b"\0\0\0\x40",) * 2
    assert isinstance(first, SymbolCopy)
    assert first.name == second.name == "kept"
    assert (first.offset, first.source, second.offset, second.source) == (4, 2, 0, 0)
    assert third == Copy(1, 0, 3, 0, 4)
    (made,) = launch.maps
    assert (made.sizes, made.strides, made.box, made.steps, made.swizzle) == ((1024, 512), (4096,), (64, 8), (1, 1), 3)
    assert [(one.at - made.at, one.tensor) for one in launch.pointers] == [(128, 1)], "right after the map"
    beyond = launch._replace(maps=(made._replace(sizes=(1024, 513)),))
    with pytest.raises(CandidateError, match="outside all tensors"):
        validate_program(program._replace(steps=(beyond,)))


def test_nvcc_messages_are_normalized():
    text = 'kernel.cu(12): error: identifier "foo" is undefined\nkernel.cu(3): warning #177-D: unused\n'
    assert normalize_messages(text).startswith('kernel.cu:12: error: identifier "foo" is undefined')


def test_run_requires_a_gpu():
    config = resolve_config(None, (), base={"backend": {"name": "cuda", "device": "never"}})
    with pytest.raises(UserError, match="can compile a kernel"):
        require_backend(config)


def test_doctor_describes_the_mode_without_a_gpu(never):
    [gpu] = list(never.optional_tools())
    assert not gpu.is_available
    assert "compiled and recorded but not run" in gpu.detail
