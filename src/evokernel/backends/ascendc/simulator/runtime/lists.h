// Lists of tensors, for operators with a DYNAMIC input.
#pragma once
#include "tensors.h"

namespace AscendC {

template <class T> class TensorDesc {
 public:
  void SetShapeAddr(uint64_t* memory) { shape_ = memory; }  // where GetDesc writes the sizes
  uint64_t* GetShapeAddr() const { return shape_; }
  uint64_t GetDim() const { return axes_; }
  uint64_t GetIndex() const { return index_; }
  uint64_t GetShape(uint32_t axis) const { return shape_[axis]; }
  T* GetDataPtr() const { return data_; }
  GlobalTensor<T> GetDataObj() const {
    uint64_t elements = 1;
    for (uint64_t i = 0; i < axes_; i++) elements *= shape_[i];
    GlobalTensor<T> made;
    made.SetGlobalBuffer(data_, elements);
    return made;
  }

 private:
  friend class ListTensorDesc;
  uint64_t* shape_ = nullptr;
  uint64_t axes_ = 0, index_ = 0;
  T* data_ = nullptr;
};

class ListTensorDesc {
 public:
  ListTensorDesc() = default;
  ListTensorDesc(void* list, uint32_t = 0xffffffff, uint32_t = 0xffffffff) { Init(list); }
  void Init(void* list, uint32_t = 0xffffffff, uint32_t = 0xffffffff) {
    words_ = static_cast<const uint64_t*>(list);
    pointers_ = words_ + words_[0] / sizeof(uint64_t);
    count_ = uint32_t(words_[1] >> 32);
    simulator::core->scalar(simulator::chip().scalar_gm_miss);
  }
  uint32_t GetSize() const { return count_; }
  template <class T> T* GetDataPtr(uint32_t index) const {
    simulator::core->scalar(simulator::chip().scalar_gm_hit);
    return reinterpret_cast<T*>(pointers_[checked(index)]);
  }
  template <class T> void GetDesc(TensorDesc<T>& into, uint32_t index) const {
    const uint64_t* at = words_ + 1;
    for (uint32_t i = 0; i < checked(index); i++) at += 1 + uint32_t(*at);
    into.axes_ = uint32_t(*at);
    into.index_ = index;
    into.data_ = GetDataPtr<T>(index);
    for (uint32_t i = 0; into.shape_ && i < into.axes_; i++) into.shape_[i] = at[1 + i];
  }

 private:
  const uint64_t *words_ = nullptr, *pointers_ = nullptr;
  uint32_t count_ = 0;
  uint32_t checked(uint32_t index) const {
    if (index >= count_) simulator::endRun("E-GM-OOB", "ListTensorDesc: index %u is outside a list of %u tensors", index, count_);
    return index;
  }
};

}  // namespace AscendC
