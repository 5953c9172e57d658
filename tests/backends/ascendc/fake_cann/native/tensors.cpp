// libnnopbase.so of the fake toolkit.
#include "acl.h"

extern "C" {

aclTensor* aclCreateTensor(const int64_t* dims, uint64_t rank, int type, const int64_t* strides, int64_t offset, int format,
                           const int64_t* storage, uint64_t storageRank, void* data) {
  if (rank > 8 || offset != 0 || format != 2 || storageRank != rank) return nullptr;
  aclTensor* made = new aclTensor();
  int64_t step = 1;
  for (uint64_t axis = rank; axis-- > 0;) {
    if (strides[axis] != step || storage[axis] != dims[axis]) return nullptr;
    step *= dims[axis];
    made->dims[axis] = dims[axis];
  }
  made->rank = static_cast<int32_t>(rank);
  made->type = type;
  made->data = data;
  return made;
}

int aclDestroyTensor(const aclTensor* tensor) {
  delete tensor;
  return 0;
}
}
