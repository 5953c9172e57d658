#include <ATen/Scalar.h>
#include <torch/csrc/autograd/custom_function.h>
#include "pytorch_npu_helper.hpp"

std::vector<at::Tensor> blend(std::vector<at::Tensor>& x, at::Tensor factors, const char* mode, std::vector<double> shift, at::IntArrayRef steps) {
  auto values = factors.accessor<float, 1>();
  std::vector<at::Scalar> scalars;
  for (int64_t i = 0; i < factors.size(0); i++) scalars.push_back(at::Scalar(values[i]));
  at::TensorList list = at::TensorList(x);
  at::ArrayRef<at::Scalar> scalarList(scalars);
  aclIntArray* counts = ConvertType(steps);
  EXEC_NPU_CMD(aclnnBlendList, list, scalarList, mode, shift, counts);
  return x;
}

PYBIND11_MODULE(kernel_gen_ops, m) { m.def("blend", &blend, ""); }
