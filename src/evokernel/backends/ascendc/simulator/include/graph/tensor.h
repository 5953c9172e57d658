// ge::Shape, as the tiling functions of the library take it.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/ge_error_codes.h"
#include "graph/types.h"

namespace ge {

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

}  // namespace ge
