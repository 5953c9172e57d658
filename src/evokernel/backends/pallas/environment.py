"""Environment variables of processes that trace and interpret kernels; jax reads them when it is imported."""

from __future__ import annotations

ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "JAX_CPU_ENABLE_ASYNC_DISPATCH": "0",
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_multi_thread_eigen=false",
}
