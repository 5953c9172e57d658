// gert::TilingContext: the arguments and the results of a tiling function.
#pragma once
#include "exe_graph/runtime/tiling_data.h"

namespace fe {
class PlatFormInfos;
}

namespace simulator {
fe::PlatFormInfos* platform();

// The result of a tiling function.
struct Tiling {
  static constexpr size_t CAPACITY = 64 * 1024;
  gert::TilingData data{CAPACITY};
  std::vector<size_t> workspaces;
  uint32_t blockDim = 0;
  bool blockDimIsSet = false;
  uint64_t key = 0;
  uint32_t scheduleMode = 0;
  uint32_t localMemory = 0;
};
}  // namespace simulator

namespace gert {

class TilingContext : public ExtendedKernelContext {
 public:
  TilingContext(const simulator::Node* node, simulator::Tiling* tiling, const void* compileInfo)
      : ExtendedKernelContext(node), tiling_(tiling), compileInfo_(compileInfo) {}

  const StorageShape* GetInputShape(size_t index) const { return shape(input("GetInputShape", index)); }
  const StorageShape* GetRequiredInputShape(size_t index) const { return shape(listed("GetRequiredInputShape", index, 0)); }
  const StorageShape* GetOptionalInputShape(size_t index) const { return shape(listed("GetOptionalInputShape", index, 0)); }
  const StorageShape* GetDynamicInputShape(size_t index, size_t relative) const { return shape(listed("GetDynamicInputShape", index, relative)); }
  const StorageShape* GetOutputShape(size_t index) const { return shape(output("GetOutputShape", index)); }
  const Tensor* GetInputTensor(size_t index) const { return input("GetInputTensor", index); }
  const Tensor* GetRequiredInputTensor(size_t index) const { return listed("GetRequiredInputTensor", index, 0); }
  const Tensor* GetOptionalInputTensor(size_t index) const { return listed("GetOptionalInputTensor", index, 0); }
  const Tensor* GetDynamicInputTensor(size_t index, size_t relative) const { return listed("GetDynamicInputTensor", index, relative); }

  ge::graphStatus SetBlockDim(uint32_t count) {
    tiling_->blockDim = count;
    tiling_->blockDimIsSet = true;
    return ge::GRAPH_SUCCESS;
  }
  uint32_t GetBlockDim() const { return tiling_->blockDim; }
  ge::graphStatus SetTilingKey(uint64_t key) {
    tiling_->key = key;
    return ge::GRAPH_SUCCESS;
  }
  uint64_t GetTilingKey() const { return tiling_->key; }
  ge::graphStatus SetScheduleMode(uint32_t mode) {
    tiling_->scheduleMode = mode;
    return ge::GRAPH_SUCCESS;
  }
  uint32_t GetScheduleMode() const { return tiling_->scheduleMode; }
  ge::graphStatus SetLocalMemorySize(uint32_t bytes) {
    tiling_->localMemory = bytes;
    return ge::GRAPH_SUCCESS;
  }
  ge::graphStatus SetNeedAtomic(bool) { return ge::GRAPH_SUCCESS; }
  ge::graphStatus SetTilingCond(int32_t) { return ge::GRAPH_SUCCESS; }
  ge::graphStatus SetAicpuBlockDim(uint32_t) { return ge::GRAPH_SUCCESS; }

  TilingData* GetRawTilingData() { return &tiling_->data; }
  template <class T>
  T* GetTilingData() {
    if (sizeof(T) > tiling_->data.GetCapacity()) return nullptr;
    tiling_->data.SetDataSize(sizeof(T));
    return static_cast<T*>(tiling_->data.GetData());
  }
  size_t* GetWorkspaceSizes(size_t count) {
    tiling_->workspaces.assign(count, 0);
    return tiling_->workspaces.data();
  }
  size_t GetWorkspaceNum() const { return tiling_->workspaces.size(); }

  fe::PlatFormInfos* GetPlatformInfo() const { return simulator::platform(); }
  const void* GetCompileInfo() const { return compileInfo_; }
  template <class T>
  const T* GetCompileInfo() const {
    return static_cast<const T*>(compileInfo_);
  }
  int32_t GetDeterministic() const { return 0; }

 private:
  static const StorageShape* shape(const Tensor* tensor) { return tensor ? &tensor->GetShape() : nullptr; }
  simulator::Tiling* tiling_;
  const void* compileInfo_;
};

}  // namespace gert
