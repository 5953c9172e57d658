// The order of a program that runs one kernel: a line with the number of blocks, then a line per parameter of the kernel.
//   blocks 8
//   in 4096 inputs_0.bin       read before the launch
//   out 4096 outputs_0.bin     read before the launch, written after it
//   scratch 1024 -             the workspace
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

struct Parameter {
  std::string kind;
  uint64_t bytes = 0;
  std::string file;
  uint8_t* data = nullptr;
};

struct Order {
  uint32_t blocks = 1;
  std::vector<Parameter> parameters;
};

inline void giveUp(const char* what, const char* name) {
  std::fprintf(stderr, "evokernel: %s %s\n", what, name);
  std::exit(4);
}

inline Order readOrder(const char* path) {
  Order order;
  std::FILE* file = std::fopen(path, "r");
  if (!file) giveUp("cannot read", path);
  char kind[32];
  char name[512];
  unsigned long long bytes = 0;
  if (std::fscanf(file, "blocks %u", &order.blocks) != 1) giveUp("no number of blocks in", path);
  while (std::fscanf(file, "%31s %llu %511s", kind, &bytes, name) == 3) {
    Parameter parameter;
    parameter.kind = kind;
    parameter.bytes = bytes;
    parameter.file = name;
    order.parameters.push_back(parameter);
  }
  std::fclose(file);
  return order;
}

inline std::vector<uint8_t> contents(const Parameter& parameter) {
  std::vector<uint8_t> bytes(parameter.bytes);
  if (parameter.kind == "scratch") return bytes;
  std::FILE* file = std::fopen(parameter.file.c_str(), "rb");
  if (!file) giveUp("cannot read", parameter.file.c_str());
  if (std::fread(bytes.data(), 1, bytes.size(), file) != bytes.size()) giveUp("too short:", parameter.file.c_str());
  std::fclose(file);
  return bytes;
}

inline void writeOutput(const Parameter& parameter, const uint8_t* bytes) {
  if (parameter.kind != "out") return;
  std::FILE* file = std::fopen(parameter.file.c_str(), "wb");
  if (!file) giveUp("cannot write", parameter.file.c_str());
  if (std::fwrite(bytes, 1, parameter.bytes, file) != parameter.bytes) giveUp("cannot write", parameter.file.c_str());
  std::fclose(file);
}
