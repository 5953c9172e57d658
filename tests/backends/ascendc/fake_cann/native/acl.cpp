// libascendcl.so of the fake toolkit. A failed launch is reported when the stream is synchronized, as on an NPU.
#include "acl.h"

#include <cstdlib>
#include <cstring>
#include <string>

static bool started = false;
static int failed = 0;
static std::string said;

extern "C" {

int aclInit(const char*) {
  if (started) return 100002;
  started = true;
  return 0;
}

int aclrtSetDevice(int32_t device) { return device == 0 ? 0 : 107001; }

int aclrtCreateStream(aclrtStream* stream) {
  *stream = &started;
  return 0;
}

int aclrtMalloc(void** place, size_t bytes, int) {
  *place = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  return *place ? 0 : 207001;
}

int aclrtFree(void* place) {
  std::free(place);
  return 0;
}

int aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, int) {
  if (bytes > room) return 107000;
  std::memcpy(to, from, bytes);
  return failed;
}

int aclrtSynchronizeStream(aclrtStream) { return failed; }

const char* aclGetRecentErrMsg() { return said.empty() ? nullptr : said.c_str(); }

void fakeFail(int code, const char* text) {
  failed = code;
  said = text;
}
}
