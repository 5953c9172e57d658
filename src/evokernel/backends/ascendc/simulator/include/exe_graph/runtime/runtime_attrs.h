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
class ContinuousVector {
 public:
  ContinuousVector() = default;
  ContinuousVector(const void* data, size_t size) : data_(data), size_(size) {}
  const void* GetData() const { return data_; }
  size_t GetSize() const { return size_; }
  size_t GetCapacity() const { return size_; }

 private:
  const void* data_ = nullptr;
  size_t size_ = 0;
};

template <class T>
class TypedContinuousVector : public ContinuousVector {
 public:
  using ContinuousVector::ContinuousVector;
  const T* GetData() const { return static_cast<const T*>(ContinuousVector::GetData()); }
};

// A list of lists.
class ContinuousVectorVector {
 public:
  ContinuousVectorVector() = default;
  explicit ContinuousVectorVector(std::vector<ContinuousVector> lists) : lists_(std::move(lists)) {}
  const ContinuousVector* Get(size_t index) const { return index < lists_.size() ? &lists_[index] : nullptr; }
  size_t GetSize() const { return lists_.size(); }

 private:
  std::vector<ContinuousVector> lists_;
};

// An attribute, with its value converted to every type that host code can request.
struct AttributeValue {
  enum Kind { INT, FLOAT, BOOL, STRING, LIST_INT, LIST_FLOAT, LIST_BOOL, LIST_LIST_INT };
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
  std::vector<std::vector<int64_t>> integerLists;
  std::vector<uint8_t> booleans;  // as bool, one byte each
  TypedContinuousVector<int64_t> integerView;
  TypedContinuousVector<float> numberView;
  TypedContinuousVector<bool> booleanView;
  ContinuousVectorVector listView;

  // The list of this attribute, whatever its elements are.
  const ContinuousVector* list() const {
    if (kind == LIST_FLOAT) return &numberView;
    if (kind == LIST_BOOL) return &booleanView;
    return &integerView;
  }
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
  const TypedContinuousVector<bool>* GetListBool(size_t index) const { return at(index) ? &at(index)->booleanView : nullptr; }
  const ContinuousVectorVector* GetListListInt(size_t index) const { return at(index) ? &at(index)->listView : nullptr; }

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
    else if constexpr (std::is_same<T, TypedContinuousVector<bool>>::value) return &value->booleanView;
    else if constexpr (std::is_same<T, ContinuousVectorVector>::value) return &value->listView;
    else if constexpr (std::is_same<T, ContinuousVector>::value) return value->list();
    else return reinterpret_cast<const T*>(&value->integer);
  }

  const AttributeValue* simulatorAt(size_t index) const { return at(index); }
  // Moving a value moves its lists, so the views are set here, at the final address of the value.
  void simulatorSet(std::vector<AttributeValue> values) {
    values_ = std::move(values);
    for (AttributeValue& value : values_) {
      value.integerView = {value.integers.data(), value.integers.size()};
      value.numberView = {value.numbers.data(), value.numbers.size()};
      value.booleans.assign(value.integers.begin(), value.integers.end());
      value.booleanView = {value.booleans.data(), value.booleans.size()};
      std::vector<ContinuousVector> lists;
      for (const std::vector<int64_t>& list : value.integerLists) lists.emplace_back(list.data(), list.size());
      value.listView = ContinuousVectorVector(std::move(lists));
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

