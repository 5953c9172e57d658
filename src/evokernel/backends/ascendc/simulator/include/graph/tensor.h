// ge::Shape, ge::TensorDesc and ge::Tensor, as host code for graphs and the tiling functions of the library take them.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/ge_error_codes.h"
#include "graph/types.h"

namespace ge {

inline const std::vector<int64_t> UNKNOWN_SHAPE = {UNKNOWN_DIM}, UNKNOWN_RANK = {UNKNOWN_DIM_NUM};

class Shape {
 public:
  Shape() = default;
  explicit Shape(std::vector<int64_t> sizes) : sizes_(std::move(sizes)) {}
  size_t GetDimNum() const { return sizes_.size(); }
  int64_t GetDim(size_t index) const { return index < sizes_.size() ? sizes_[index] : 0; }
  graphStatus SetDim(size_t index, int64_t size) {
    if (index >= sizes_.size()) return GRAPH_FAILED;
    sizes_[index] = size;
    return GRAPH_SUCCESS;
  }
  std::vector<int64_t> GetDims() const { return sizes_; }
  int64_t GetShapeSize() const {
    int64_t product = sizes_.empty() ? 0 : 1;
    for (int64_t size : sizes_) product *= size;
    return product;
  }

 private:
  std::vector<int64_t> sizes_;
};

class TensorDesc {
 public:
  TensorDesc() = default;
  explicit TensorDesc(Shape shape, Format format = FORMAT_ND, DataType type = DT_FLOAT)
      : shape_(shape), originShape_(std::move(shape)), format_(format), originFormat_(format), type_(type) {}
  Shape GetShape() const { return shape_; }
  void SetShape(const Shape& shape) { shape_ = shape; }
  Shape GetOriginShape() const { return originShape_; }
  void SetOriginShape(const Shape& shape) { originShape_ = shape; }
  Format GetFormat() const { return format_; }
  void SetFormat(Format format) { format_ = format; }
  Format GetOriginFormat() const { return originFormat_; }
  void SetOriginFormat(Format format) { originFormat_ = format; }
  DataType GetDataType() const { return type_; }
  void SetDataType(DataType type) { type_ = type; }
  graphStatus SetShapeRange(const std::vector<std::pair<int64_t, int64_t>>& range) {
    range_ = range;
    return GRAPH_SUCCESS;
  }
  graphStatus GetShapeRange(std::vector<std::pair<int64_t, int64_t>>& range) const {
    range = range_;
    return GRAPH_SUCCESS;
  }

 private:
  Shape shape_, originShape_;
  Format format_ = FORMAT_ND, originFormat_ = FORMAT_ND;
  DataType type_ = DT_FLOAT;
  std::vector<std::pair<int64_t, int64_t>> range_;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(TensorDesc description, const uint8_t* data, size_t bytes) : description_(std::move(description)), data_(data, data + bytes) {}
  TensorDesc GetTensorDesc() const { return description_; }
  const uint8_t* GetData() const { return data_.data(); }
  uint8_t* GetData() { return data_.data(); }
  size_t GetSize() const { return data_.size(); }

 private:
  TensorDesc description_;
  std::vector<uint8_t> data_;
};

}  // namespace ge
