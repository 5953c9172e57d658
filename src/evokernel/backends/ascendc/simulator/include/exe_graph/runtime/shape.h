// gert::Shape: up to 25 sizes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "graph/ge_error_codes.h"
#include "graph/types.h"

namespace simulator {
// Records a null result of the host API, so that the message about a later crash can name it.
void answeredNull(const char* call, size_t index, size_t count, const char* what);
void noSuchDimension(size_t index, size_t count);
}  // namespace simulator

namespace gert {

class Shape {
 public:
  static constexpr size_t kMaxDimNum = 25;
  static constexpr int64_t kInvalidDimValue = std::numeric_limits<int64_t>::min();

  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) {
    for (int64_t size : sizes) AppendDim(size);
  }
  bool operator==(const Shape& other) const {
    if (count_ != other.count_) return false;
    for (size_t i = 0; i < count_; i++) {
      if (sizes_[i] != other.sizes_[i]) return false;
    }
    return true;
  }
  bool operator!=(const Shape& other) const { return !(*this == other); }

  size_t GetDimNum() const { return count_; }
  int64_t GetDim(size_t index) const {
    if (index >= count_) simulator::noSuchDimension(index, count_);
    return index < kMaxDimNum ? sizes_[index] : kInvalidDimValue;
  }
  const int64_t& operator[](size_t index) const {
    if (index >= count_) simulator::noSuchDimension(index, count_);
    return sizes_[index < kMaxDimNum ? index : kMaxDimNum];
  }
  int64_t& operator[](size_t index) { return sizes_[index < kMaxDimNum ? index : kMaxDimNum]; }
  int64_t GetShapeSize() const {
    int64_t product = 1;
    for (size_t i = 0; i < count_; i++) product *= sizes_[i];
    return product;
  }
  bool IsScalar() const { return count_ == 0; }
  void SetScalar() { count_ = 0; }
  void SetDimNum(size_t count) { count_ = count < kMaxDimNum ? count : kMaxDimNum; }
  void SetDim(size_t index, int64_t size) {
    if (index < kMaxDimNum) sizes_[index] = size;
  }
  Shape& AppendDim(int64_t size) {
    if (count_ < kMaxDimNum) sizes_[count_++] = size;
    return *this;
  }

 private:
  int64_t sizes_[kMaxDimNum + 1] = {};  // one extra entry, returned for every index out of range
  size_t count_ = 0;
};

}  // namespace gert
