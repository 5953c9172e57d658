// The part of the NPU runtime that an operator needs, on the CPU: NPU memory is memory of the process.
#pragma once
#include <cstddef>
#include <cstdint>

struct aclTensor {
  int64_t dims[8];
  int32_t rank;
  int32_t type;
  void* data;
};

typedef void* aclrtStream;

extern "C" {
int aclInit(const char* config);
int aclrtSetDevice(int32_t device);
int aclrtCreateStream(aclrtStream* stream);
int aclrtMalloc(void** place, size_t bytes, int policy);
int aclrtFree(void* place);
int aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, int kind);
int aclrtSynchronizeStream(aclrtStream stream);
const char* aclGetRecentErrMsg();
aclTensor* aclCreateTensor(const int64_t* dims, uint64_t rank, int type, const int64_t* strides, int64_t offset, int format,
                           const int64_t* storage, uint64_t storageRank, void* data);
int aclDestroyTensor(const aclTensor* tensor);
// Of the fake alone: the error that the next wait for the stream gives.
void fakeFail(int code, const char* text);
}
