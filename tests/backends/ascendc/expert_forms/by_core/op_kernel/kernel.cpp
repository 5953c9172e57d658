// The cube core signals, and the vector cores wait: each has its own code, chosen when the kernel is compiled.
#include "kernel_operator.h"

template <int RANK> struct Sizes {
  __forceinline__ [host, aicore] constexpr Sizes(const uint32_t (&given)[RANK]) {
    for (int i = 0; i < RANK; ++i) values[i] = given[i];
  }
  uint32_t values[RANK];
};
constexpr uint32_t GIVEN[2] = {2, 3};
constexpr Sizes<2> SIZES(GIVEN);

template <class T>
class Doubling {
 public:
  template <class U> struct Factor {
    static constexpr float value = 1;
  };
  template <>
  struct Factor<float> {
    static constexpr float value = 2;
  };

  template <int32_t CORE_TYPE = g_coreType>
  __forceinline__ [aicore]
  void operator()(GM_ADDR x, GM_ADDR y, uint32_t length);

  template <>
  __forceinline__ [aicore]
  void operator()<AscendC::AIC>(GM_ADDR x, GM_ADDR y, uint32_t length) {
    AscendC::CrossCoreSetFlag<0x2, PIPE_FIX>(SIZES.values[1]);
  }

  template <>
  __forceinline__ [aicore]
  void operator()<AscendC::AIV>(GM_ADDR x, GM_ADDR y, uint32_t length) {
    AscendC::CrossCoreWaitFlag(SIZES.values[1]);
    if (AscendC::GetSubBlockIdx() != 0) return;
    AscendC::GlobalTensor<T> from, to;
    from.SetGlobalBuffer((__gm__ T*)x, length);
    to.SetGlobalBuffer((__gm__ T*)y, length);
    for (uint32_t i = 0; i < length; i++) to.SetValue(i, from.GetValue(i) * Factor<T>::value);
  }
};

extern "C" __global__ __aicore__ void by_core(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(data, tiling);
  Doubling<float> doubling;
  doubling(x, y, data.length);
}
