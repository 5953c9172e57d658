#include <torch/library.h>
#include <torch/extension.h>
#include "pytorch_npu_helper.hpp"

at::Tensor scaled(const at::Tensor& x) {
    at::Tensor out = at::empty_like(x);
    EXEC_NPU_CMD(aclnnKernelCustom, x, out);
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("scaled", &scaled, "twice and one more");
}
