// Stands in for the CUDA runtime while a candidate's launch function runs, once for every size: what it launches is written down, and
// nothing is run. Tensors have addresses that nothing is at; a number that lies in one of them is a pointer into that tensor.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cinttypes>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

struct Parameter {
  int offset, size;
};

struct Function {
  std::vector<Parameter> parameters;
  int registers = 0;
};

struct Name {
  size_t image;
  std::string text;
  bool operator<(const Name& other) const { return image != other.image ? image < other.image : text < other.text; }
};

struct Range {
  uint64_t base, size;
};

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};

std::map<const void*, Name>& names() {
  static std::map<const void*, Name> found;
  return found;
}
std::map<const void*, Name>& variables() {
  static std::map<const void*, Name> found;
  return found;
}
// Device code, one for every file that was compiled.
std::vector<const uint64_t*>& images() {
  static std::vector<const uint64_t*> found;
  return found;
}
std::map<Name, Function> functions;
std::map<int, int> facts;
std::vector<std::string> maps;  // tensor maps, as they are written down
constexpr uint64_t MAP = 0x70616d20726f7365;
std::vector<Range> tensors;
std::vector<Configuration> configured;
std::string text, trouble;
cudaStream_t given;
bool is_recording = false;
size_t given_tensors = 0;
int copied = 0;
constexpr uint64_t SCRATCH = 0x5EEEull << 48, APART = 1ull << 38;
constexpr size_t MOST_DATA = 1 << 20;

void say(std::string& into, const char* form, ...) {
  char line[512];
  va_list values;
  va_start(values, form);
  vsnprintf(line, sizeof line, form, values);
  va_end(values);
  into += line;
}

cudaError_t refuse(const char* reason, const char* form, ...) {
  if (trouble.empty()) {
    char line[400];
    va_list values;
    va_start(values, form);
    vsnprintf(line, sizeof line, form, values);
    va_end(values);
    trouble = std::string(reason) + "\t" + line;
  }
  return cudaErrorInvalidValue;
}

int fact(int number, int otherwise = 0) {
  auto found = facts.find(number);
  return found == facts.end() ? otherwise : found->second;
}

int tensor_at(uint64_t place, uint64_t* offset) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (place >= tensors[i].base && place - tensors[i].base <= tensors[i].size) {
      *offset = place - tensors[i].base;
      return int(i);
    }
  return -1;
}

bool is_on_stream(cudaStream_t stream, const char* what) {
  if (!is_recording) {
    refuse("forbidden", "%s is outside the call of `kernel`", what);
    return false;
  }
  if (stream == given) return true;
  refuse("stream", "%s uses another stream than the given one; pass `stream` as the last of <<<grid, block, shared, stream>>>", what);
  return false;
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream, const dim3* cluster,
                   bool is_cooperative) {
  auto name = names().find(function);
  if (name == names().end()) return refuse("symbol", "a launch of a function that is not a kernel of this file");
  const std::string& called = name->second.text;
  if (!is_on_stream(stream, called.c_str())) return cudaErrorInvalidValue;
  auto known = functions.find(name->second);
  if (known == functions.end()) return refuse("symbol", "%s is not in the compiled code", called.c_str());
  const auto& parameters = known->second.parameters;
  size_t size = 0;
  for (const auto& one : parameters) size = size > size_t(one.offset + one.size) ? size : size_t(one.offset + one.size);
  std::vector<unsigned char> packed(size, 0);
  for (size_t i = 0; i < parameters.size(); ++i) memcpy(packed.data() + parameters[i].offset, arguments[i], parameters[i].size);
  say(text, "launch\t%zu\t", name->second.image);
  text += called;
  say(text, "\t%u %u %u\t%u %u %u\t%zu\t%u %u %u\t%d\t", grid.x, grid.y, grid.z, block.x, block.y, block.z, shared,
      cluster ? cluster->x : 0, cluster ? cluster->y : 0, cluster ? cluster->z : 0, int(is_cooperative));
  for (unsigned char byte : packed) say(text, "%02x", byte);
  text += "\t";
  for (size_t at = 0; at + 8 <= size; at += 8) {
    uint64_t word, offset;
    memcpy(&word, packed.data() + at, 8);
    int tensor = tensor_at(word, &offset);
    if (tensor >= 0) say(text, "%zu:%d:%" PRIu64 " ", at, tensor, offset);
  }
  text += "\t";
  for (size_t at = 0; at + sizeof(CUtensorMap) <= size; at += 8) {
    uint64_t words[2];
    memcpy(words, packed.data() + at, sizeof words);
    if (words[0] == MAP && words[1] < maps.size()) say(text, "%zu:%s ", at, maps[words[1]].c_str());
  }
  text += "\n";
  return cudaSuccess;
}

cudaError_t allocate(void** place, size_t count) {
  if (!is_recording) return refuse("forbidden", "memory is allocated outside the call of `kernel`; allocate scratch inside it");
  uint64_t base = SCRATCH + APART * (tensors.size() - given_tensors);
  tensors.push_back({base, count});
  say(text, "scratch\t%zu\n", count);
  *place = reinterpret_cast<void*>(base);
  return cudaSuccess;
}

cudaError_t fill(void* place, int value, size_t count) {
  uint64_t offset;
  int tensor = tensor_at(reinterpret_cast<uint64_t>(place), &offset);
  if (tensor < 0) return refuse("out_of_bounds", "memset at an address outside all tensors");
  say(text, "fill\t%d\t%" PRIu64 "\t%d\t%zu\n", tensor, offset, value & 255, count);
  return cudaSuccess;
}

// What is copied from the host: its bytes are written down. Gives the number of the data, or -1.
int data(const void* source, size_t count) {
  if (count > MOST_DATA) {
    refuse("memory", "a copy of %zu bytes from the host; at most %zu are allowed", count, MOST_DATA);
    return -1;
  }
  text += "data\t";
  for (size_t i = 0; i < count; ++i) say(text, "%02x", static_cast<const unsigned char*>(source)[i]);
  text += "\n";
  return -2 - copied++;
}

cudaError_t copy(void* target, const void* source, size_t count, cudaMemcpyKind kind) {
  uint64_t offset, source_offset = 0;
  int tensor = tensor_at(reinterpret_cast<uint64_t>(target), &offset), from = tensor_at(reinterpret_cast<uint64_t>(source), &source_offset);
  if (tensor < 0) return refuse("unsupported", "a copy to the host would wait for the device; decide in a kernel instead");
  if (from < 0 && kind == cudaMemcpyDeviceToDevice) return refuse("out_of_bounds", "a copy from an address outside all tensors");
  if (from < 0 && (from = data(source, count)) == -1) return cudaErrorInvalidValue;
  say(text, "copy\t%d\t%" PRIu64 "\t%d\t%" PRIu64 "\t%zu\n", tensor, offset, from, source_offset, count);
  return cudaSuccess;
}

// The driver makes tensor maps out of addresses; here are none, so that what is asked for is kept instead, and found again in a launch.
CUresult encode(CUtensorMap* made, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* sizes,
                const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave interleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill outside) {
  uint64_t offset;
  int tensor = tensor_at(reinterpret_cast<uint64_t>(address), &offset);
  if (tensor < 0 || rank < 1 || rank > 5) {
    refuse("launch", "a tensor map of rank %u has an address outside all tensors, or a rank outside 1 to 5", rank);
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::string line;
  say(line, "%d:%d:%" PRIu64 ":%d:%d:%d:%d:%u", int(type), tensor, offset, int(interleave), int(swizzle), int(promotion), int(outside), rank);
  for (cuuint32_t i = 0; i < rank; ++i) say(line, ":%" PRIu64, uint64_t(sizes[i]));
  for (cuuint32_t i = 0; i + 1 < rank; ++i) say(line, ":%" PRIu64, uint64_t(strides[i]));
  for (cuuint32_t i = 0; i < rank; ++i) say(line, ":%u", box[i]);
  for (cuuint32_t i = 0; i < rank; ++i) say(line, ":%u", steps[i]);
  memset(made, 0, sizeof *made);
  made->opaque[0] = MAP, made->opaque[1] = maps.size();
  maps.push_back(line);
  return CUDA_SUCCESS;
}

cudaError_t entry_point(const char* name, void** function, cudaDriverEntryPointQueryResult* status) {
  if (strcmp(name, "cuTensorMapEncodeTiled") != 0) return refuse("forbidden", "the kernel calls %s of the driver; only tensor maps are allowed", name);
  if (status) *status = cudaDriverEntryPointSuccess;
  return *function = reinterpret_cast<void*>(&encode), cudaSuccess;
}

cudaError_t to_symbol(const void* symbol, const void* source, size_t count, size_t offset, cudaMemcpyKind kind) {
  auto name = variables().find(symbol);
  uint64_t source_offset = 0;
  int from = tensor_at(reinterpret_cast<uint64_t>(source), &source_offset);
  if (name == variables().end()) return refuse("symbol", "a copy to a symbol that is not a variable of this file");
  if (from < 0 && kind == cudaMemcpyDeviceToDevice) return refuse("out_of_bounds", "a copy from an address outside all tensors");
  if (from < 0 && (from = data(source, count)) == -1) return cudaErrorInvalidValue;
  say(text, "symbol\t%zu\t%s\t%zu\t%d\t%" PRIu64 "\t%zu\n", name->second.image, name->second.text.substr(0, 300).c_str(), offset, from,
      source_offset, count);
  return cudaSuccess;
}

}  // namespace

#define OFFERED extern "C" __attribute__((visibility("default")))

// For the process that records.
OFFERED void recorder_fact(int number, int value) { facts[number] = value; }
OFFERED const void* recorder_image(uint64_t number, uint64_t* size) {
  const uint64_t* image = number < images().size() ? images()[number] : nullptr;
  *size = image ? reinterpret_cast<const uint16_t*>(image)[3] + image[1] : 0;
  return image;
}
OFFERED void recorder_function(uint64_t image, const char* name, int registers, int count, const int* offsets, const int* sizes) {
  Function& made = functions[{size_t(image), name}];
  made.registers = registers;
  made.parameters.clear();
  for (int i = 0; i < count; ++i) made.parameters.push_back({offsets[i], sizes[i]});
}
OFFERED void recorder_begin(int count, const uint64_t* bases, const uint64_t* sizes, void* stream) {
  tensors.clear();
  for (int i = 0; i < count; ++i) tensors.push_back({bases[i], sizes[i]});
  given_tensors = size_t(count);
  text.clear();
  configured.clear();
  maps.clear();
  copied = 0;
  given = reinterpret_cast<cudaStream_t>(stream);
  is_recording = true;
}
OFFERED const char* recorder_end() {
  is_recording = false;
  return text.c_str();
}
// What PyTorch does with whole tensors: sets them to a pattern of `width` bytes.
OFFERED void recorder_fill(void* place, uint64_t value, int width, size_t count) {
  uint64_t offset;
  int tensor = tensor_at(reinterpret_cast<uint64_t>(place), &offset);
  if (tensor >= 0) say(text, "fill\t%d\t%" PRIu64 "\t%" PRIu64 "\t%zu\t%d\n", tensor, offset, value, count, width);
}
OFFERED const char* recorder_trouble() { return trouble.c_str(); }

// What nvcc's own code calls.
extern "C" {
__attribute__((visibility("default"))) void** __cudaRegisterFatBinary(void* wrapper) {
  images().push_back(*reinterpret_cast<const uint64_t* const*>(static_cast<const char*>(wrapper) + 8));
  return reinterpret_cast<void**>(new size_t(images().size() - 1));
}
__attribute__((visibility("default"))) void __cudaRegisterFatBinaryEnd(void**) {}
__attribute__((visibility("default"))) void __cudaUnregisterFatBinary(void**) {}
__attribute__((visibility("default"))) void __cudaRegisterFunction(void** image, const char* function, char*, const char* name, int, uint3*, uint3*,
                                                                   dim3*, dim3*, int*) {
  names()[function] = {*reinterpret_cast<size_t*>(image), name};
}
__attribute__((visibility("default"))) void __cudaRegisterVar(void** image, char* variable, char*, const char* name, int, size_t, int, int) {
  variables()[variable] = {*reinterpret_cast<size_t*>(image), name};
}
__attribute__((visibility("default"))) char __cudaInitModule(void**) { return 0; }
__attribute__((visibility("default"))) unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  configured.push_back({grid, block, shared, stream});
  return 0;
}
__attribute__((visibility("default"))) cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configured.empty()) return cudaErrorMissingConfiguration;
  Configuration last = configured.back();
  configured.pop_back();
  *grid = last.grid, *block = last.block, *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}
__attribute__((visibility("default"))) cudaError_t __cudaGetKernel(cudaKernel_t* handle, const void* function) {
  *handle = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
__attribute__((visibility("default"))) cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                                                      size_t shared, cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, shared, stream, nullptr, false);
}
}

// What a launch function may call.
OFFERED cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
  return launch(function, grid, block, arguments, shared, stream, nullptr, false);
}
OFFERED cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                                                cudaStream_t stream) {
  return launch(function, grid, block, arguments, shared, stream, nullptr, true);
}
OFFERED cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  const dim3* cluster = nullptr;
  dim3 size;
  bool is_cooperative = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& one = config->attrs[i];
    if (one.id == cudaLaunchAttributeClusterDimension) {
      size = dim3(one.val.clusterDim.x, one.val.clusterDim.y, one.val.clusterDim.z);
      cluster = &size;
    } else if (one.id == cudaLaunchAttributeCooperative) {
      is_cooperative = one.val.cooperative != 0;
    } else if (one.id != cudaLaunchAttributeIgnore) {
      return refuse("unsupported", "launch attribute %d is not supported; only clusters and cooperative launches are recorded", int(one.id));
    }
  }
  return launch(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream, cluster, is_cooperative);
}
OFFERED cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
OFFERED cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
OFFERED cudaError_t cudaMalloc(void** place, size_t count) { return allocate(place, count); }
OFFERED cudaError_t cudaMallocAsync(void** place, size_t count, cudaStream_t stream) {
  return is_on_stream(stream, "cudaMallocAsync") ? allocate(place, count) : cudaErrorInvalidValue;
}
OFFERED cudaError_t cudaFree(void*) { return cudaSuccess; }
OFFERED cudaError_t cudaFreeAsync(void*, cudaStream_t) { return cudaSuccess; }
OFFERED cudaError_t cudaMemset(void* place, int value, size_t count) {
  if (given) return refuse("stream", "cudaMemset waits for the device; use cudaMemsetAsync on `stream`");
  return is_on_stream(nullptr, "cudaMemset") ? fill(place, value, count) : cudaErrorInvalidValue;
}
OFFERED cudaError_t cudaMemsetAsync(void* place, int value, size_t count, cudaStream_t stream) {
  return is_on_stream(stream, "cudaMemsetAsync") ? fill(place, value, count) : cudaErrorInvalidValue;
}
OFFERED cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  return is_on_stream(stream, "cudaMemcpyAsync") ? copy(target, source, count, kind) : cudaErrorInvalidValue;
}
OFFERED cudaError_t cudaMemcpy(void* target, const void* source, size_t count, cudaMemcpyKind kind) {
  if (given) return refuse("stream", "cudaMemcpy waits for the device; use cudaMemcpyAsync on `stream`");
  return is_on_stream(nullptr, "cudaMemcpy") ? copy(target, source, count, kind) : cudaErrorInvalidValue;
}
OFFERED cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source, size_t count, size_t offset, cudaMemcpyKind kind,
                                           cudaStream_t stream) {
  return is_on_stream(stream, "cudaMemcpyToSymbolAsync") ? to_symbol(symbol, source, count, offset, kind) : cudaErrorInvalidValue;
}
OFFERED cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source, size_t count, size_t offset, cudaMemcpyKind kind) {
  if (given) return refuse("stream", "cudaMemcpyToSymbol waits for the device; use cudaMemcpyToSymbolAsync on `stream`");
  return is_on_stream(nullptr, "cudaMemcpyToSymbol") ? to_symbol(symbol, source, count, offset, kind) : cudaErrorInvalidValue;
}
#undef cudaGetDriverEntryPoint
#undef cudaGetDriverEntryPointByVersion
OFFERED cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long, cudaDriverEntryPointQueryResult* status) {
  return entry_point(name, function, status);
}
OFFERED cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                                     cudaDriverEntryPointQueryResult* status) {
  return entry_point(name, function, status);
}
OFFERED CUresult cuTensorMapEncodeTiled(CUtensorMap* made, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* sizes,
                                        const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
                                        CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                        CUtensorMapFloatOOBfill outside) {
  return encode(made, type, rank, address, sizes, strides, box, steps, interleave, swizzle, promotion, outside);
}
OFFERED cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
OFFERED cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
OFFERED cudaError_t cudaGetLastError() { return trouble.empty() ? cudaSuccess : cudaErrorInvalidValue; }
OFFERED cudaError_t cudaPeekAtLastError() { return cudaGetLastError(); }
OFFERED const char* cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "refused"; }
OFFERED const char* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaErrorInvalidValue"; }
OFFERED cudaError_t cudaGetDevice(int* number) { return *number = 0, cudaSuccess; }
OFFERED cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
OFFERED cudaError_t cudaSetDevice(int) { return cudaSuccess; }
OFFERED cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  auto found = facts.find(int(attribute));
  if (found == facts.end()) return refuse("unsupported", "attribute %d of the device is not recorded", int(attribute));
  return *value = found->second, cudaSuccess;
}
OFFERED cudaError_t cudaGetDeviceProperties(cudaDeviceProp* made, int) {
  memset(made, 0, sizeof *made);
  made->multiProcessorCount = fact(cudaDevAttrMultiProcessorCount);
  made->major = fact(cudaDevAttrComputeCapabilityMajor);
  made->minor = fact(cudaDevAttrComputeCapabilityMinor);
  made->warpSize = fact(cudaDevAttrWarpSize, 32);
  made->maxThreadsPerBlock = fact(cudaDevAttrMaxThreadsPerBlock, 1024);
  made->maxThreadsPerMultiProcessor = fact(cudaDevAttrMaxThreadsPerMultiProcessor);
  made->l2CacheSize = fact(cudaDevAttrL2CacheSize);
  made->sharedMemPerBlock = 48 << 10;
  made->sharedMemPerBlockOptin = size_t(fact(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  made->sharedMemPerMultiprocessor = size_t(fact(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  made->regsPerMultiprocessor = fact(cudaDevAttrMaxRegistersPerMultiprocessor);
  made->regsPerBlock = 65536;
  return cudaSuccess;
}
OFFERED cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads, size_t shared,
                                                                           unsigned) {
  auto name = names().find(function);
  int registers = name == names().end() ? 32 : functions[name->second].registers;
  int warps = (threads + 31) / 32, per_warp = (registers * 32 + 255) / 256 * 256;
  int found = fact(cudaDevAttrMaxBlocksPerMultiprocessor, 32);
  auto least = [&found](int other) { found = other < found ? other : found; };
  if (warps) least(fact(cudaDevAttrMaxThreadsPerMultiProcessor, 2048) / 32 / warps);
  if (warps && per_warp) least(fact(cudaDevAttrMaxRegistersPerMultiprocessor, 65536) / (per_warp * warps));
  least(int(size_t(fact(cudaDevAttrMaxSharedMemoryPerMultiprocessor, 100 << 10)) / (shared + 1024)));
  return *blocks = found, cudaSuccess;
}
OFFERED cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}
