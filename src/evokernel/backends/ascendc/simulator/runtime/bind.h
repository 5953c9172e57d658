// The C interface through which the loader calls an operator.
#pragma once
#include <cstdint>

extern "C" {

struct SimulatorArgument {
  int32_t kind;   // 0 absent, 1 tensor, 2 int, 3 float, 4 bool, 5 list of ints, 6 text, 7 list of tensors, 8 list of floats
  int32_t dtype;  // bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64
  int32_t rank;   // of the tensor
  int32_t flags;  // of a tensor: 1 for a copy that the call may change, 2 for a tensor on the host
  int64_t dims[8];
  void* data;      // of the tensor; the characters of a text; the int64_t, double or SimulatorArgument elements of a list
  int64_t integer;  // the value, or the length of a list or text
  double number;
};

// Runs the operator through its definition and tiling. Returns 0, or 1 on failure (see simulator_error).
int simulator_run(const char* op, const SimulatorArgument* inputs, int inputCount, const SimulatorArgument* attributes, int attributeCount,
             const SimulatorArgument* outputs, int outputCount);

// Calls a function of the project's binding and copies its results into `outputs`.
int simulator_call(const char* function, const SimulatorArgument* arguments, int argumentCount, const SimulatorArgument* outputs, int outputCount);

// "CODE\taddresses\tmessage" of the last call that failed.
const char* simulator_error();
}
