// The types of c10 that bindings use: devices, element types, lists of sizes, errors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace c10 {

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, PrivateUse1 = 20 };
enum class ScalarType : int8_t { Byte = 0, Char, Short, Int, Long, Half, Float, Double, ComplexFloat = 9, Bool = 11, BFloat16 = 15, Undefined = 18 };
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kPrivateUse1 = DeviceType::PrivateUse1;
constexpr ScalarType kByte = ScalarType::Byte, kChar = ScalarType::Char, kShort = ScalarType::Short, kInt = ScalarType::Int,
                     kLong = ScalarType::Long, kHalf = ScalarType::Half, kFloat = ScalarType::Float, kDouble = ScalarType::Double,
                     kBool = ScalarType::Bool, kBFloat16 = ScalarType::BFloat16, kComplexFloat = ScalarType::ComplexFloat;

inline const char* toString(ScalarType type) {
  switch (type) {
    case ScalarType::Byte: return "Byte";
    case ScalarType::Char: return "Char";
    case ScalarType::Short: return "Short";
    case ScalarType::Int: return "Int";
    case ScalarType::Long: return "Long";
    case ScalarType::Half: return "Half";
    case ScalarType::Float: return "Float";
    case ScalarType::Double: return "Double";
    case ScalarType::ComplexFloat: return "ComplexFloat";
    case ScalarType::Bool: return "Bool";
    case ScalarType::BFloat16: return "BFloat16";
    default: return "Undefined";
  }
}

inline size_t elementSize(ScalarType type) {
  switch (type) {
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Bool:
      return 1;
    case ScalarType::Short:
    case ScalarType::Half:
    case ScalarType::BFloat16:
      return 2;
    case ScalarType::Long:
    case ScalarType::Double:
    case ScalarType::ComplexFloat:
      return 8;
    default:
      return 4;
  }
}

inline bool isFloatingType(ScalarType type) {
  return type == kHalf || type == kFloat || type == kDouble || type == kBFloat16;
}
inline bool isComplexType(ScalarType type) { return type == kComplexFloat; }
inline bool isIntegralType(ScalarType type, bool withBool = false) {
  return type == kBool ? withBool : !isFloatingType(type) && !isComplexType(type);
}

class Device {
 public:
  Device(DeviceType type = DeviceType::PrivateUse1, int8_t index = 0) : type_(type), index_(index) {}
  DeviceType type() const { return type_; }
  int8_t index() const { return index_; }
  bool has_index() const { return true; }
  bool is_cpu() const { return type_ == DeviceType::CPU; }
  bool is_cuda() const { return type_ == DeviceType::CUDA; }
  bool is_privateuseone() const { return type_ == DeviceType::PrivateUse1; }
  bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
  bool operator!=(const Device& other) const { return !(*this == other); }
  std::string str() const { return is_cpu() ? "cpu" : "npu:" + std::to_string(index_); }

 private:
  DeviceType type_;
  int8_t index_;
};

inline std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }
inline std::ostream& operator<<(std::ostream& out, DeviceType type) { return out << Device(type).str(); }
inline std::ostream& operator<<(std::ostream& out, ScalarType type) { return out << toString(type); }

// A list that is passed by value. It owns its elements, so no reference can dangle.
template <class T>
class ArrayRef {
 public:
  ArrayRef() = default;
  ArrayRef(const T& only) : items_{only} {}
  ArrayRef(std::initializer_list<T> items) : items_(items) {}
  ArrayRef(std::vector<T> items) : items_(std::move(items)) {}
  ArrayRef(const T* items, size_t count) : items_(items, items + count) {}
  template <size_t N>
  ArrayRef(const T (&items)[N]) : items_(items, items + N) {}
  const T& operator[](size_t index) const { return items_[index]; }
  const T& at(size_t index) const { return items_.at(index); }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  const T* data() const { return items_.data(); }
  const T& front() const { return items_.front(); }
  const T& back() const { return items_.back(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  bool equals(const ArrayRef& other) const { return items_ == other.items_; }
  ArrayRef slice(size_t from, size_t count) const { return ArrayRef(items_.data() + from, count); }
  ArrayRef slice(size_t from) const { return slice(from, size() - from); }
  std::vector<T> vec() const { return items_; }

 private:
  std::vector<T> items_;
};

template <class T>
bool operator==(const ArrayRef<T>& one, const ArrayRef<T>& other) {
  return one.equals(other);
}
template <class T>
bool operator!=(const ArrayRef<T>& one, const ArrayRef<T>& other) {
  return !one.equals(other);
}
template <class T>
std::ostream& operator<<(std::ostream& out, const ArrayRef<T>& list) {
  out << "[";
  for (size_t i = 0; i < list.size(); i++) out << (i ? ", " : "") << list[i];
  return out << "]";
}

using IntArrayRef = ArrayRef<int64_t>;
template <class T>
using optional = std::optional<T>;
using std::nullopt;
using nullopt_t = std::nullopt_t;

// A number of any type.
class Scalar {
 public:
  Scalar() : Scalar(int64_t(0)) {}
  Scalar(double value) : number_(value), integer_(static_cast<int64_t>(value)), floating_(true) {}
  Scalar(float value) : Scalar(static_cast<double>(value)) {}
  Scalar(int64_t value) : number_(static_cast<double>(value)), integer_(value) {}
  Scalar(int value) : Scalar(static_cast<int64_t>(value)) {}
  Scalar(bool value) : Scalar(static_cast<int64_t>(value)) {}
  double toDouble() const { return number_; }
  float toFloat() const { return static_cast<float>(number_); }
  int64_t toLong() const { return integer_; }
  int toInt() const { return static_cast<int>(integer_); }
  bool toBool() const { return number_ != 0; }
  bool isFloatingPoint() const { return floating_; }
  template <class T>
  T to() const {
    return floating_ ? static_cast<T>(number_) : static_cast<T>(integer_);
  }

 private:
  double number_;
  int64_t integer_;
  bool floating_ = false;
};

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace c10
