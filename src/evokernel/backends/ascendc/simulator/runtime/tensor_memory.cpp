// at::Tensor of bindings: views and new tensors.
#include "tensor_memory.h"

#include <algorithm>
#include <new>
#include <sys/mman.h>

#include "ATen/ATen.h"
#include "diagnose.h"
#include "half.h"
#include "parts.h"

namespace simulator {

namespace {

struct Expected {
  const void* data;
  size_t bytes;
};
std::vector<Expected> expected;

constexpr int64_t MOST_ON_CPU = 4096;

c10::ScalarType scalarType(ge::DataType type) {
  switch (type) {
    case ge::DT_UINT8: return c10::kByte;
    case ge::DT_INT8: return c10::kChar;
    case ge::DT_INT16: return c10::kShort;
    case ge::DT_INT32: return c10::kInt;
    case ge::DT_INT64: return c10::kLong;
    case ge::DT_FLOAT16: return c10::kHalf;
    case ge::DT_BF16: return c10::kBFloat16;
    case ge::DT_FLOAT: return c10::kFloat;
    case ge::DT_DOUBLE: return c10::kDouble;
    case ge::DT_COMPLEX64: return c10::kComplexFloat;
    default: return c10::kBool;
  }
}

// Shared, because only shared memory can also be mapped at the kernel's address.
std::shared_ptr<void> allocated(size_t bytes) {
  size_t length = std::max<size_t>(bytes, 1);
  void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return std::shared_ptr<void>(memory, [length](void* at) {
    forgetWritten(at);
    munmap(at, length);
  });
}

// A launch in parts must not touch complete tensors.
void copiesOnHost(size_t bytes) {
  constexpr size_t MOST = 64u << 20;
  if (!choice().isWhole() && bytes > MOST)
    endRun("E-PART-HOST", "the binding copies or fills %llu bytes on the host: compute in the kernel instead", (unsigned long long)bytes);
}

double load(const char* at, c10::ScalarType type) {
  switch (type) {
    case c10::kByte: return *reinterpret_cast<const uint8_t*>(at);
    case c10::kChar: return *reinterpret_cast<const int8_t*>(at);
    case c10::kShort: return *reinterpret_cast<const int16_t*>(at);
    case c10::kInt: return *reinterpret_cast<const int32_t*>(at);
    case c10::kLong: return static_cast<double>(*reinterpret_cast<const int64_t*>(at));
    case c10::kHalf: return static_cast<float>(*reinterpret_cast<const half*>(at));
    case c10::kBFloat16: return static_cast<float>(*reinterpret_cast<const bfloat16_t*>(at));
    case c10::kFloat: return *reinterpret_cast<const float*>(at);
    case c10::kDouble: return *reinterpret_cast<const double*>(at);
    case c10::kComplexFloat: return *reinterpret_cast<const float*>(at);  // the real part, as PyTorch converts
    default: return *reinterpret_cast<const bool*>(at);
  }
}

void store(char* at, c10::ScalarType type, double value) {
  switch (type) {
    case c10::kByte: *reinterpret_cast<uint8_t*>(at) = static_cast<uint8_t>(value); break;
    case c10::kChar: *reinterpret_cast<int8_t*>(at) = static_cast<int8_t>(value); break;
    case c10::kShort: *reinterpret_cast<int16_t*>(at) = static_cast<int16_t>(value); break;
    case c10::kInt: *reinterpret_cast<int32_t*>(at) = static_cast<int32_t>(value); break;
    case c10::kLong: *reinterpret_cast<int64_t*>(at) = static_cast<int64_t>(value); break;
    case c10::kHalf: *reinterpret_cast<half*>(at) = half(static_cast<float>(value)); break;
    case c10::kBFloat16: *reinterpret_cast<bfloat16_t*>(at) = bfloat16_t(static_cast<float>(value)); break;
    case c10::kFloat: *reinterpret_cast<float*>(at) = static_cast<float>(value); break;
    case c10::kDouble: *reinterpret_cast<double*>(at) = value; break;
    case c10::kComplexFloat:
      reinterpret_cast<float*>(at)[0] = static_cast<float>(value);
      reinterpret_cast<float*>(at)[1] = 0;
      break;
    default: *reinterpret_cast<bool*>(at) = value != 0;
  }
}

// Calls `body` with the offset of every element in order.
template <class Body>
void forEach(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, Body body) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  std::vector<int64_t> at(sizes.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < count; i++) {
    body(i, offset);
    for (size_t axis = sizes.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++at[axis] < sizes[axis]) break;
      offset -= strides[axis] * sizes[axis];
      at[axis] = 0;
    }
  }
}

}  // namespace

ExpectedOutputs::ExpectedOutputs(const std::vector<Operand>& outputs) {
  for (const Operand& output : outputs) {
    int64_t bytes = ge::GetSizeByDataType(output.type);
    for (int64_t size : output.shape) bytes *= size;
    expected.push_back({output.data, static_cast<size_t>(bytes)});
  }
}

ExpectedOutputs::~ExpectedOutputs() { expected.clear(); }

Operand tensorOfValues(const std::vector<double>& values, ge::DataType type, std::shared_ptr<void>& memory) {
  size_t each = static_cast<size_t>(ge::GetSizeByDataType(type));
  memory = allocated(values.size() * each);
  for (size_t i = 0; i < values.size(); i++) store(static_cast<char*>(memory.get()) + i * each, scalarType(type), values[i]);
  Operand made;
  made.kind = Operand::TENSOR;
  made.type = type;
  made.shape = {static_cast<int64_t>(values.size())};
  made.data = memory.get();
  return made;
}

}  // namespace simulator

namespace at {

Tensor Tensor::simulatorNew(SimulatorSizes sizes, const TensorOptions& options) {
  Tensor made;
  for (int64_t size : sizes) {
    if (size < 0) throw Error("a tensor cannot have the size " + std::to_string(size));
  }
  made.strides_ = packed(sizes);
  made.sizes_ = std::move(sizes);
  made.type_ = options.dtype();
  made.device_ = options.device();
  made.memory_ = simulator::allocated(made.nbytes());
  return made;
}

Tensor Tensor::simulatorOver(void* data, SimulatorSizes sizes, ScalarType type) {
  Tensor made;
  made.strides_ = packed(sizes);
  made.sizes_ = std::move(sizes);
  made.type_ = type;
  made.memory_ = std::shared_ptr<void>(data, [](void*) {});
  return made;
}

size_t Tensor::place(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) throw Error("Dimension out of range: " + std::to_string(axis) + " of " + std::to_string(rank));
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

SimulatorSizes Tensor::packed(const SimulatorSizes& sizes) {
  SimulatorSizes strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(sizes[i], 1);
  return strides;
}

int64_t Tensor::numel() const {
  int64_t count = 1;
  for (int64_t size : sizes_) count *= size;
  return count;
}

bool Tensor::is_contiguous(MemoryFormat) const {
  int64_t expected = 1;
  for (size_t i = sizes_.size(); i-- > 0;) {
    if (sizes_[i] != 1 && strides_[i] != expected) return false;
    expected *= sizes_[i];
  }
  return true;
}

void* Tensor::data_ptr() const {
  if (is_cpu()) return simulatorData();
  return reinterpret_cast<void*>(uintptr_t(0x1000) + static_cast<uintptr_t>(offset_));
}

double Tensor::simulatorItem() const {
  if (numel() != 1) throw Error("item() needs a tensor with one element, not " + std::to_string(numel()) + " elements");
  return simulator::load(simulatorData(), type_);
}

Tensor Tensor::clone() const {
  simulator::copiesOnHost(nbytes());
  Tensor copy = simulatorNew(sizes_, options());
  size_t bytes = element_size();
  const char* from = simulatorData();
  char* into = copy.simulatorData();
  if (is_contiguous()) memcpy(into, from, nbytes());
  else simulator::forEach(sizes_, strides_, [&](int64_t i, int64_t offset) { memcpy(into + i * bytes, from + offset * bytes, bytes); });
  return copy;
}

Tensor Tensor::reshaped(SimulatorSizes sizes) const {
  Tensor view = *this;
  view.strides_ = packed(sizes);
  view.sizes_ = std::move(sizes);
  return view;
}

Tensor Tensor::view(IntArrayRef wanted) const {
  SimulatorSizes sizes = wanted.vec();
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& size : sizes) {
    if (size == -1) open = &size;
    else known *= size;
  }
  if (open) *open = known ? numel() / known : 0;
  int64_t count = open ? known * *open : known;
  if (count != numel()) throw Error(simulator::joined("shape ", wanted, " is invalid for a tensor of ", numel(), " elements"));
  if (!is_contiguous()) throw Error("view size is not compatible with the tensor's strides: use reshape");
  return reshaped(std::move(sizes));
}

Tensor Tensor::flatten(int64_t from, int64_t to) const {
  if (!dim()) return reshape({1});
  size_t first = place(from, dim()), last = place(to, dim());
  SimulatorSizes sizes(sizes_.begin(), sizes_.begin() + first);
  int64_t product = 1;
  for (size_t i = first; i <= last; i++) product *= sizes_[i];
  sizes.push_back(product);
  sizes.insert(sizes.end(), sizes_.begin() + last + 1, sizes_.end());
  return reshape(sizes);
}

Tensor Tensor::permute(IntArrayRef order) const {
  if (order.size() != sizes_.size()) throw Error("permute needs one index per dimension");
  Tensor view = *this;
  for (size_t i = 0; i < order.size(); i++) {
    view.sizes_[i] = size(order[i]);
    view.strides_[i] = stride(order[i]);
  }
  return view;
}

Tensor Tensor::transpose(int64_t one, int64_t other) const {
  Tensor view = *this;
  size_t a = place(one, dim()), b = place(other, dim());
  std::swap(view.sizes_[a], view.sizes_[b]);
  std::swap(view.strides_[a], view.strides_[b]);
  return view;
}

Tensor Tensor::unsqueeze(int64_t axis) const {
  Tensor view = *this;
  size_t at = place(axis, dim() + 1);
  int64_t stride = at < sizes_.size() ? sizes_[at] * strides_[at] : 1;
  view.sizes_.insert(view.sizes_.begin() + at, 1);
  view.strides_.insert(view.strides_.begin() + at, stride);
  return view;
}

Tensor Tensor::squeeze(int64_t axis) const {
  size_t at = place(axis, dim());
  if (sizes_[at] != 1) return *this;
  Tensor view = *this;
  view.sizes_.erase(view.sizes_.begin() + at);
  view.strides_.erase(view.strides_.begin() + at);
  return view;
}

Tensor Tensor::squeeze() const {
  Tensor view = *this;
  for (int64_t axis = dim(); axis-- > 0;) view = view.squeeze(axis);
  return view;
}

Tensor Tensor::expand(IntArrayRef wanted) const {
  Tensor view = *this;
  while (view.dim() < static_cast<int64_t>(wanted.size())) view = view.unsqueeze(0);
  for (size_t i = 0; i < wanted.size(); i++) {
    if (wanted[i] == -1 || wanted[i] == view.sizes_[i]) continue;
    if (view.sizes_[i] != 1) throw Error(simulator::joined("a tensor of shape ", sizes(), " cannot be expanded to ", wanted));
    view.sizes_[i] = wanted[i];
    view.strides_[i] = 0;
  }
  return view;
}

Tensor Tensor::narrow(int64_t axis, int64_t from, int64_t length) const {
  size_t at = place(axis, dim());
  if (from < 0 || length < 0 || from + length > sizes_[at]) throw Error("narrow reaches beyond the tensor");
  Tensor view = *this;
  view.offset_ += from * strides_[at];
  view.sizes_[at] = length;
  return view;
}

Tensor Tensor::select(int64_t axis, int64_t index) const {
  size_t at = place(axis, dim());
  int64_t from = index < 0 ? index + sizes_[at] : index;
  return narrow(axis, from, 1).squeeze(axis);
}

Tensor Tensor::to(Device device) const {
  if (device.type() == device_.type()) return *this;
  if (device.is_cpu() && numel() > simulator::MOST_ON_CPU)
    simulator::reportViolation("E-BIND-CPU", "the binding copies %lld elements to the CPU: compute in the kernel instead",
               static_cast<long long>(numel()));
  Tensor moved = clone();
  moved.device_ = device;
  return moved;
}

Tensor Tensor::to(ScalarType type) const {
  if (type == type_) return *this;
  simulator::copiesOnHost(nbytes());
  Tensor cast = simulatorNew(sizes_, options().dtype(type));
  const char* from = simulatorData();
  char* into = cast.simulatorData();
  size_t narrow = element_size(), wide = cast.element_size();
  simulator::forEach(sizes_, strides_, [&](int64_t i, int64_t offset) { simulator::store(into + i * wide, type, simulator::load(from + offset * narrow, type_)); });
  return cast;
}

Tensor& Tensor::fill_(Scalar value) {
  char* into = simulatorData();
  size_t bytes = element_size();
  double number = value.toDouble();
  simulator::copiesOnHost(nbytes());
  if (number == 0 && is_contiguous()) memset(into, 0, nbytes());
  else simulator::forEach(sizes_, strides_, [&](int64_t, int64_t offset) { simulator::store(into + offset * bytes, type_, number); });
  return *this;
}

Tensor& Tensor::copy_(const Tensor& source, bool) {
  simulator::copiesOnHost(nbytes());
  Tensor plain = source.expand(sizes()).to(type_).contiguous();
  char* into = simulatorData();
  const char* from = plain.simulatorData();
  size_t bytes = element_size();
  simulator::forEach(sizes_, strides_, [&](int64_t i, int64_t offset) { memcpy(into + offset * bytes, from + i * bytes, bytes); });
  return *this;
}

Tensor empty(IntArrayRef sizes, const TensorOptions& options) {
  Tensor made = Tensor::simulatorNew(sizes.vec(), options);
  if (!simulator::choice().isWhole()) return made;  // which elements the kernel writes is recorded
  for (auto one = simulator::expected.begin(); one != simulator::expected.end(); ++one) {
    if (one->bytes != made.nbytes()) continue;
    memcpy(made.simulatorData(), one->data, one->bytes);
    return made;
  }
  memset(made.simulatorData(), 0xFF, made.nbytes());
  return made;
}

Tensor full(IntArrayRef sizes, Scalar value, const TensorOptions& options) {
  Tensor made = Tensor::simulatorNew(sizes.vec(), options);
  bool isFilled = !simulator::choice().isWhole() && value.toDouble() == 0;  // new memory is zero
  if (!isFilled) return made.fill_(value);
  simulator::noteZeros(made.simulatorData());
  return made;
}

}  // namespace at
