// gert::RuntimeAttrs: the attributes of one call, by index.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "exe_graph/runtime/shape.h"

namespace gert {

// A list of values in contiguous memory.
template <class T>
class TypedContinuousVector {
 public:
  TypedContinuousVector() = default;
  TypedContinuousVector(const T* data, size_t size) : data_(data), size_(size) {}
  const T* GetData() const { return data_; }
  size_t GetSize() const { return size_; }
  size_t GetCapacity() const { return size_; }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

// An attribute, with its value converted to every type that host code can request.
struct AttributeValue {
  enum Kind { INT, FLOAT, BOOL, STRING, LIST_INT, LIST_FLOAT, LIST_BOOL };
  Kind kind = INT;
  int64_t integer = 0;
  int32_t narrow = 0;
  uint32_t natural = 0;
  float number = 0;
  double wide = 0;
  bool boolean = false;
  std::string text;
  std::vector<int64_t> integers;
  std::vector<float> numbers;
  TypedContinuousVector<int64_t> integerView;
  TypedContinuousVector<float> numberView;

  void set(int64_t value) {
    integer = value;
    narrow = static_cast<int32_t>(value);
    natural = static_cast<uint32_t>(value);
    number = static_cast<float>(value);
    wide = static_cast<double>(value);
    boolean = value != 0;
  }
  void set(double value) {
    number = static_cast<float>(value);
    wide = value;
    integer = static_cast<int64_t>(value);
    boolean = value != 0;
  }
};

class RuntimeAttrs {
 public:
  size_t GetAttrNum() const { return values_.size(); }
  const int64_t* GetInt(size_t index) const { return GetAttrPointer<int64_t>(index); }
  const float* GetFloat(size_t index) const { return GetAttrPointer<float>(index); }
  const bool* GetBool(size_t index) const { return GetAttrPointer<bool>(index); }
  const char* GetStr(size_t index) const { return GetAttrPointer<char>(index); }
  const TypedContinuousVector<int64_t>* GetListInt(size_t index) const { return at(index) ? &at(index)->integerView : nullptr; }
  const TypedContinuousVector<float>* GetListFloat(size_t index) const { return at(index) ? &at(index)->numberView : nullptr; }

  template <class T>
  const T* GetAttrPointer(size_t index) const {
    const AttributeValue* value = at(index);
    if (!value) return nullptr;
    if constexpr (std::is_same<T, float>::value) return &value->number;
    else if constexpr (std::is_same<T, double>::value) return &value->wide;
    else if constexpr (std::is_same<T, bool>::value) return &value->boolean;
    else if constexpr (std::is_same<T, int32_t>::value) return &value->narrow;
    else if constexpr (std::is_same<T, uint32_t>::value) return &value->natural;
    else if constexpr (std::is_same<T, char>::value) return value->text.c_str();
    else if constexpr (std::is_same<T, TypedContinuousVector<int64_t>>::value) return &value->integerView;
    else if constexpr (std::is_same<T, TypedContinuousVector<float>>::value) return &value->numberView;
    else return reinterpret_cast<const T*>(&value->integer);
  }

  // Moving a value moves its lists, so the views are set here, at the final address of the value.
  void simulatorSet(std::vector<AttributeValue> values) {
    values_ = std::move(values);
    for (AttributeValue& value : values_) {
      value.integerView = {value.integers.data(), value.integers.size()};
      value.numberView = {value.numbers.data(), value.numbers.size()};
    }
  }

 private:
  const AttributeValue* at(size_t index) const {
    if (index < values_.size()) return &values_[index];
    simulator::answeredNull("GetAttrs()->Get...", index, values_.size(), "attributes");
    return nullptr;
  }
  std::vector<AttributeValue> values_;
};

}  // namespace gert

