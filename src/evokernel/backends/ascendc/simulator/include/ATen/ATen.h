// The part of at::Tensor that bindings use: shapes, views and new tensors. Computation belongs in a kernel.
#pragma once
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <tuple>

#include "../../runtime/registry.h"
#include "c10/simulator_types.h"

namespace at {

using namespace c10;
using c10::ScalarType;
using SimulatorSizes = std::vector<int64_t>;

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(ScalarType type) : type_(type), hasType_(true) {}
  TensorOptions(Device device) : device_(device), hasDevice_(true) {}
  TensorOptions(DeviceType device) : TensorOptions(Device(device)) {}
  TensorOptions dtype(ScalarType type) const { return TensorOptions(type, device_, true, hasDevice_); }
  TensorOptions device(Device device) const { return TensorOptions(type_, device, hasType_, true); }
  // These options, and those of a tensor where none are set.
  TensorOptions simulatorOr(const TensorOptions& other) const {
    return TensorOptions(hasType_ ? type_ : other.type_, hasDevice_ ? device_ : other.device_, true, true);
  }
  TensorOptions memory_format(MemoryFormat) const { return *this; }
  TensorOptions requires_grad(bool) const { return *this; }
  ScalarType dtype() const { return type_; }
  Device device() const { return device_; }

 private:
  TensorOptions(ScalarType type, Device device, bool hasType, bool hasDevice) : type_(type), device_(device), hasType_(hasType), hasDevice_(hasDevice) {}
  ScalarType type_ = ScalarType::Float;
  Device device_{DeviceType::CPU};
  bool hasType_ = false, hasDevice_ = false;
};
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions device(Device device) { return TensorOptions(device); }

class Tensor {
 public:
  Tensor() = default;
  static Tensor simulatorNew(SimulatorSizes sizes, const TensorOptions& options);
  static Tensor simulatorOver(void* data, SimulatorSizes sizes, ScalarType type);
  char* simulatorData() const { return static_cast<char*>(memory_.get()) + offset_ * static_cast<int64_t>(element_size()); }

  bool defined() const { return memory_ != nullptr; }
  int64_t dim() const { return static_cast<int64_t>(sizes_.size()); }
  int64_t ndimension() const { return dim(); }
  int64_t size(int64_t axis) const { return sizes_[place(axis, dim())]; }
  int64_t stride(int64_t axis) const { return strides_[place(axis, dim())]; }
  IntArrayRef sizes() const { return sizes_; }
  IntArrayRef strides() const { return strides_; }
  int64_t numel() const;
  size_t element_size() const { return elementSize(type_); }
  size_t itemsize() const { return element_size(); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * element_size(); }
  int64_t storage_offset() const { return offset_; }
  ScalarType scalar_type() const { return type_; }
  ScalarType dtype() const { return type_; }
  Device device() const { return device_; }
  TensorOptions options() const { return TensorOptions(type_).device(device_); }
  bool is_privateuseone() const { return device_.is_privateuseone(); }
  bool is_cpu() const { return device_.is_cpu(); }
  bool is_cuda() const { return false; }
  bool is_floating_point() const { return isFloatingType(type_); }
  bool is_complex() const { return isComplexType(type_); }
  bool requires_grad() const { return false; }
  bool is_same(const Tensor& other) const { return memory_ == other.memory_ && offset_ == other.offset_; }
  bool is_contiguous(MemoryFormat = MemoryFormat::Contiguous) const;

  // For a tensor on the device this is an address that only the device can use.
  void* data_ptr() const;
  template <class T>
  T* data_ptr() const {
    return static_cast<T*>(data_ptr());
  }
  // The elements of a tensor with one axis, on the CPU.
  template <class T, size_t N>
  const T* accessor() const {
    static_assert(N == 1, "the simulator has accessors of tensors with one axis");
    if (!is_cpu()) throw Error("accessor() reads the memory of the host, but the tensor is on the device: call cpu()");
    if (dim() != 1 || !is_contiguous()) throw Error("accessor<T, 1>() needs a contiguous tensor with one axis");
    return reinterpret_cast<const T*>(simulatorData());
  }
  template <class T>
  T item() const {
    return static_cast<T>(simulatorItem());
  }

  Tensor contiguous(MemoryFormat = MemoryFormat::Contiguous) const { return is_contiguous() ? *this : clone(); }
  Tensor clone() const;
  Tensor detach() const { return *this; }
  Tensor alias() const { return *this; }
  Tensor view(IntArrayRef sizes) const;
  Tensor reshape(IntArrayRef sizes) const { return contiguous().view(sizes); }
  Tensor view_as(const Tensor& other) const { return view(other.sizes()); }
  Tensor reshape_as(const Tensor& other) const { return reshape(other.sizes()); }
  Tensor flatten(int64_t from = 0, int64_t to = -1) const;
  Tensor permute(IntArrayRef order) const;
  Tensor transpose(int64_t one, int64_t other) const;
  Tensor t() const { return dim() < 2 ? *this : transpose(0, 1); }
  Tensor unsqueeze(int64_t axis) const;
  Tensor squeeze() const;
  Tensor squeeze(int64_t axis) const;
  Tensor expand(IntArrayRef sizes) const;
  Tensor expand_as(const Tensor& other) const { return expand(other.sizes()); }
  Tensor narrow(int64_t axis, int64_t from, int64_t length) const;
  Tensor select(int64_t axis, int64_t index) const;

  Tensor to(Device device) const;
  Tensor to(DeviceType device) const { return to(Device(device)); }
  Tensor to(ScalarType type) const;
  Tensor to(const TensorOptions& options) const { return to(options.dtype()).to(options.device()); }
  Tensor to(Device device, ScalarType type) const { return to(type).to(device); }
  template <class What>
  Tensor to(What what, bool, bool = false) const {
    return to(what);
  }
  template <class Where>
  Tensor to(Where device, ScalarType type, bool, bool = false) const {
    return to(type).to(Device(device));
  }
  Tensor cpu() const { return to(Device(kCPU)); }
  Tensor toType(ScalarType type) const { return to(type); }
  Tensor& fill_(Scalar value);
  Tensor& zero_() { return fill_(Scalar(0)); }
  Tensor& copy_(const Tensor& source, bool = false);

 private:
  static size_t place(int64_t axis, int64_t rank);
  static SimulatorSizes packed(const SimulatorSizes& sizes);
  double simulatorItem() const;
  Tensor reshaped(SimulatorSizes sizes) const;
  std::shared_ptr<void> memory_;
  SimulatorSizes sizes_, strides_;
  ScalarType type_ = ScalarType::Undefined;
  Device device_;
  int64_t offset_ = 0;
};

using TensorList = ArrayRef<Tensor>;
using OptionalIntArrayRef = optional<IntArrayRef>;

Tensor empty(IntArrayRef sizes, const TensorOptions& options = {});
Tensor full(IntArrayRef sizes, Scalar value, const TensorOptions& options = {});
inline Tensor empty(IntArrayRef sizes, const TensorOptions& options, MemoryFormat) { return empty(sizes, options); }
inline Tensor zeros(IntArrayRef sizes, const TensorOptions& options = {}) { return full(sizes, Scalar(0), options); }
inline Tensor ones(IntArrayRef sizes, const TensorOptions& options = {}) { return full(sizes, Scalar(1), options); }
inline Tensor empty_like(const Tensor& like) { return empty(like.sizes(), like.options()); }
inline Tensor empty_like(const Tensor& like, const TensorOptions& options) { return empty(like.sizes(), options.simulatorOr(like.options())); }
inline Tensor empty_like(const Tensor& like, MemoryFormat) { return empty_like(like); }
inline Tensor zeros_like(const Tensor& like) { return zeros(like.sizes(), like.options()); }
inline Tensor zeros_like(const Tensor& like, const TensorOptions& options) { return zeros(like.sizes(), options.simulatorOr(like.options())); }
inline Tensor ones_like(const Tensor& like) { return ones(like.sizes(), like.options()); }
inline Tensor full_like(const Tensor& like, Scalar value) { return full(like.sizes(), value, like.options()); }
inline Tensor scalar_tensor(Scalar value, const TensorOptions& options = {}) { return full(SimulatorSizes{}, value, options); }

}  // namespace at

namespace simulator {

// All arguments joined into one text, as TORCH_CHECK shows them.
template <class... Parts>
std::string joined(const Parts&... parts) {
  std::ostringstream text;
  (void)std::initializer_list<int>{((text << parts), 0)...};
  return text.str();
}

}  // namespace simulator

#define TORCH_CHECK(condition, ...)                                                               \
  do {                                                                                            \
    if (!(condition)) throw ::c10::Error(::simulator::joined("(" #condition ") ", ##__VA_ARGS__));     \
  } while (0)
#define TORCH_CHECK_EQ(one, other) TORCH_CHECK((one) == (other))
#define TORCH_CHECK_GE(one, other) TORCH_CHECK((one) >= (other))
#define TORCH_CHECK_GT(one, other) TORCH_CHECK((one) > (other))
#define TORCH_CHECK_LE(one, other) TORCH_CHECK((one) <= (other))
#define TORCH_CHECK_LT(one, other) TORCH_CHECK((one) < (other))
#define TORCH_CHECK_NE(one, other) TORCH_CHECK((one) != (other))
#define TORCH_INTERNAL_ASSERT(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define AT_ERROR(...) throw ::c10::Error(::simulator::joined(__VA_ARGS__))
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define TORCH_WARN(...) (void)0
