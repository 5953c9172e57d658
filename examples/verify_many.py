"""Verify several kernels at once from asyncio, and see which gate stops each of them."""

import asyncio

import evokernel as ek

KERNEL = """
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t rows = x_shape[0], columns = x_shape[1];
    for (int64_t i = 0; i < rows; ++i) {
        float sum = 0;
        for (int64_t j = 0; j < columns; ++j) sum += x[i * columns + j];
        out[i] = sum;
    }
}
"""
KERNELS = {
    "correct": KERNEL,
    "off by one": KERNEL.replace("j = 0", "j = 1"),
    "does not compile": KERNEL.replace("float sum", "flaot sum"),
    "calls a shell": KERNEL.replace("float sum = 0;", 'float sum = 0; system("true");'),
}


async def main() -> None:
    results = await ek.averify_many(list(KERNELS.values()), "starter/sum_rows", backend="cpp", settings={"clock": "synthetic"}, workers=2)
    for name, result in zip(KERNELS, results, strict=True):
        last = result.gates[-1]
        print(f"{name:18} {'passed every gate' if result else f'stopped at {last.gate}: {result.reason}'}")
    print(results)


if __name__ == "__main__":
    asyncio.run(main())
