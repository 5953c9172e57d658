// Creates PyTorch CUDA tensors at unmapped addresses, without a device.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/python_variable.h>

namespace {
const c10::impl::DeviceGuardImplRegistrar registered(c10::DeviceType::CUDA, new c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA>());
}

extern "C" __attribute__((visibility("default"))) PyObject* make_tensor(uint64_t address, int64_t dimensions, const int64_t* sizes,
                                                                     const int64_t* strides, int dtype) {
  const c10::Device device(c10::DeviceType::CUDA, 0);
  const auto size = static_cast<size_t>(dimensions);
  return THPVariable_Wrap(at::for_blob(reinterpret_cast<void*>(address), at::IntArrayRef(sizes, size))
                              .strides(at::IntArrayRef(strides, size))
                              .options(at::TensorOptions().dtype(static_cast<at::ScalarType>(dtype)).device(device))
                              .target_device(device)
                              .make_tensor());
}
