// Local memory without a TPipe: one allocator per memory, which allocates tensors one behind the other.
#pragma once
#include "tensors.h"

namespace AscendC {

enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MAX };

template <Hardware memory = Hardware::UB> class LocalMemAllocator {
 public:
  template <class T, uint32_t elements> LocalTensor<T> Alloc() { return Alloc<POSITION, T>(elements); }
  template <TPosition position, class T, uint32_t elements> LocalTensor<T> Alloc() { return Alloc<position, T>(elements); }
  template <class T> LocalTensor<T> Alloc(uint32_t elements) { return Alloc<POSITION, T>(elements); }
  template <TPosition position, class T> LocalTensor<T> Alloc(uint32_t elements) {
    static_assert(simulator::spaceAt(position) == simulator::spaceAt(POSITION), "this position is in a different memory");
    LocalTensor<T> made(position, used_, elements);  // the constructor checks the end of the memory
    used_ += uint32_t((uint64_t(elements) * sizeof(T) + 31) / 32 * 32);
    if (memory == Hardware::UB) simulator::core->counts.ubPeak = std::max(simulator::core->counts.ubPeak, used_);
    return made;
  }
  uint32_t GetCurAddr() const { return used_; }

 private:
  static constexpr TPosition POSITION = memory == Hardware::L1    ? TPosition::A1
                                        : memory == Hardware::L0A ? TPosition::A2
                                        : memory == Hardware::L0B ? TPosition::B2
                                        : memory == Hardware::L0C ? TPosition::CO1
                                        : memory == Hardware::BIAS ? TPosition::C2
                                        : memory == Hardware::FIXBUF ? TPosition::C2PIPE2GM
                                                                     : TPosition::VECCALC;
  uint32_t used_ = 0;
};

}  // namespace AscendC
