// What extensions use of PyTorch's own CUDA library, with one device and its default stream: they are recorded where there is neither.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/Exception.h>
#include <cuda_runtime.h>

#include <optional>

#define C10_CUDA_CHECK(EXPR)                                                                  \
  do {                                                                                        \
    const cudaError_t evokernel_error = (EXPR);                                               \
    TORCH_CHECK(evokernel_error == cudaSuccess, "CUDA error: ", cudaGetErrorString(evokernel_error)); \
  } while (0)
#define C10_CUDA_CHECK_WARN(EXPR) (void)(EXPR)
#define C10_CUDA_ERROR_HANDLED(EXPR) EXPR
#define C10_CUDA_IGNORE_ERROR(EXPR) (void)(EXPR)
#define C10_CUDA_CLEAR_ERROR() (void)cudaGetLastError()
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)

namespace c10::cuda {

class CUDAStream {
 public:
  operator cudaStream_t() const { return nullptr; }
  cudaStream_t stream() const { return nullptr; }
  DeviceIndex device_index() const { return 0; }
  Device device() const { return Device(DeviceType::CUDA, 0); }
  int64_t id() const { return 0; }
  bool query() const { return true; }
  void synchronize() const {}
  bool operator==(const CUDAStream&) const { return true; }
  bool operator!=(const CUDAStream&) const { return false; }
};

inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return {}; }
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return {}; }
template <typename... Any>
CUDAStream getStreamFromPool(Any...) {
  TORCH_CHECK(false, "a stream of its own: launch on the current one");
}
inline void setCurrentCUDAStream(CUDAStream) {}
inline DeviceIndex device_count() noexcept { return 1; }
inline DeviceIndex current_device() { return 0; }
inline void set_device(DeviceIndex) {}
inline void device_synchronize() {}
inline void stream_synchronize(cudaStream_t) {}

// There is one device, and it is the current one.
struct Guard {
  template <typename... Any>
  explicit Guard(Any&&...) {}
  template <typename Any>
  void set_device(Any) {}
  template <typename Any>
  void set_index(Any) {}
  template <typename Any>
  void reset_device(Any) {}
  Device original_device() const { return Device(DeviceType::CUDA, 0); }
  Device current_device() const { return Device(DeviceType::CUDA, 0); }
};
using CUDAGuard = Guard;
using OptionalCUDAGuard = Guard;
using CUDAStreamGuard = Guard;
using OptionalCUDAStreamGuard = Guard;

}  // namespace c10::cuda

namespace at::cuda {

using namespace c10::cuda;

inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex) {
  static cudaDeviceProp found = [] {
    cudaDeviceProp made;
    (void)cudaGetDeviceProperties(&made, 0);
    return made;
  }();
  return &found;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }
inline int warp_size() { return 32; }
inline bool is_available() { return true; }

}  // namespace at::cuda
