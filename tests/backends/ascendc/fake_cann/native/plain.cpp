// An operator package without the simulator: out = x + alpha * y, or, by alpha, one of the ways in which an operator fails.
#include "acl.h"

#include <cstdlib>

struct Prepared {
  const aclTensor* x;
  const aclTensor* y;
  double alpha;
  const aclTensor* out;
};

static Prepared prepared;

extern "C" int aclnnKernelCustomGetWorkspaceSize(const aclTensor* x, const aclTensor* y, double alpha, const aclTensor* out, uint64_t* size,
                                                 void** executor) {
  if (alpha == 1001) return 561002;
  if (alpha == 1002) return 161002;
  prepared = {x, y, alpha, out};
  *size = 1024;
  *executor = &prepared;
  return 0;
}

extern "C" int aclnnKernelCustom(void* workspace, uint64_t size, void* executor, aclrtStream) {
  const Prepared& given = *static_cast<Prepared*>(executor);
  if (!workspace || size != 1024) return 161001;
  if (given.alpha == 1003) {
    fakeFail(507035, "The error from device, errcode:(0x800000) the DDR address of the MTE instruction is out of range.");
    return 0;
  }
  if (given.alpha == 1004) std::abort();
  int64_t count = 1;
  for (int axis = 0; axis < given.out->rank; ++axis) count *= given.out->dims[axis];
  const float* x = static_cast<const float*>(given.x->data);
  const float* y = static_cast<const float*>(given.y->data);
  float* out = static_cast<float*>(given.out->data);
  for (int64_t i = 1; i < count; ++i) out[i] = x[i] + static_cast<float>(given.alpha) * y[i];  // the first is never written
  return 0;
}
