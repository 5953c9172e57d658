// Functions that a model may call: some work, some break a rule.
#include <torch/extension.h>
#include <torch/library.h>
#include "pytorch_npu_helper.hpp"

at::Tensor copy_custom(const at::Tensor& x, int64_t count, double scale, const c10::optional<at::Tensor>& bias) {
  TORCH_CHECK(x.dim() == 2, "x must be 2D, has ", x.dim());
  TORCH_CHECK(x.device().type() == c10::DeviceType::PrivateUse1, "x must be on the device");
  at::Tensor y = at::empty({8}, x.options());
  bool flag = bias.has_value() && bias.value().defined();
  EXEC_NPU_CMD(aclnnCopyCustom, x, count, scale, flag, y);
  return y;
}

at::Tensor float_attribute(const at::Tensor& x) {
  at::Tensor y = at::empty({8}, x.options());
  int64_t count = 1;
  float scale = 2.0f;
  bool flag = false;
  EXEC_NPU_CMD(aclnnCopyCustom, x, count, scale, flag, y);
  return y;
}

at::Tensor too_few(const at::Tensor& x) {
  at::Tensor y = at::empty({8}, x.options());
  EXEC_NPU_CMD(aclnnCopyCustom, x, y);
  return y;
}

at::Tensor transposed(const at::Tensor& x) {
  at::Tensor y = at::empty({8}, x.options()), t = x.t();
  EXEC_NPU_CMD(aclnnPlainCustom, t, y);
  return y;
}

at::Tensor on_cpu(const at::Tensor& x) {
  at::Tensor y = at::empty({8}, at::TensorOptions(at::kFloat));
  EXEC_NPU_CMD(aclnnPlainCustom, x, y);
  return y;
}

at::Tensor unwritten(const at::Tensor& x) { return at::empty({2, 4}, x.options()); }
at::Tensor wrong_shape(const at::Tensor& x) { return at::zeros({3, 3}, x.options()); }
at::Tensor wrong_type(const at::Tensor& x) { return at::zeros({8}, x.options().dtype(at::kHalf)); }

at::Tensor views(const at::Tensor& x) {
  at::Tensor rows = x.permute({1, 0}).contiguous().view({-1}).narrow(0, 1, 8).to(at::kHalf).to(at::kFloat);
  TORCH_CHECK(rows.sizes().equals({8}) && rows.numel() == 8 && !x.t().is_contiguous());
  return rows.clone().reshape({2, 2, 2}).transpose(0, 2).contiguous().flatten();
}

at::Tensor to_cpu(const at::Tensor& x) { return at::zeros({100, 100}, x.options()).cpu(); }
at::Tensor raises(const at::Tensor&) { throw std::runtime_error("out of luck"); }
std::tuple<at::Tensor, at::Tensor> two(const at::Tensor& x) { return {at::zeros({8}, x.options()), at::ones({8}, x.options())}; }

TORCH_LIBRARY_IMPL(myops, PrivateUse1, m) {
  m.impl("copy_custom", &copy_custom);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("copy_custom", &copy_custom, "copies", py::arg("x"), py::arg("count"), py::arg("scale") = 0.25, py::arg("bias") = py::none());
  m.def("float_attribute", &float_attribute);
  m.def("too_few", &too_few);
  m.def("transposed", &transposed);
  m.def("on_cpu", &on_cpu);
  m.def("unwritten", &unwritten);
  m.def("wrong_shape", &wrong_shape);
  m.def("wrong_type", &wrong_type);
  m.def("views", &views);
  m.def("to_cpu", &to_cpu);
  m.def("raises", &raises);
  m.def("two", &two);
  m.def("by_lambda", [](const at::Tensor& x, std::vector<int64_t> sizes) { return at::full(sizes, 2.5, x.options()); });
}
