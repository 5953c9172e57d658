// gert::TilingData: the bytes that the tiling function passes to the kernel.
#pragma once
#include <cstring>

#include "exe_graph/runtime/extended_kernel_context.h"

namespace gert {

class TilingData {
 public:
  explicit TilingData(size_t capacity) : bytes_(capacity) {}
  void* GetData() { return bytes_.data(); }
  const void* GetData() const { return bytes_.data(); }
  size_t GetCapacity() const { return bytes_.size(); }
  size_t GetDataSize() const { return size_; }
  void SetDataSize(size_t size) { size_ = size; }
  template <class T>
  ge::graphStatus Append(const T& value) {
    return Append(&value, 1);
  }
  template <class T>
  ge::graphStatus Append(const T* values, size_t count) {
    size_t bytes = sizeof(T) * count;
    if (size_ + bytes > bytes_.size()) return ge::GRAPH_FAILED;
    std::memcpy(bytes_.data() + size_, values, bytes);
    size_ += bytes;
    return ge::GRAPH_SUCCESS;
  }

 private:
  std::vector<uint8_t> bytes_;
  size_t size_ = 0;
};

}  // namespace gert
