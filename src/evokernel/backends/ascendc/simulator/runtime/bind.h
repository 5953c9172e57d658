// Between the judge's arguments and the operator: the C interface of the host side.
#pragma once
#include <cstdint>

extern "C" {

struct TwinArgument {
  int32_t kind;   // 0 absent, 1 tensor, 2 int, 3 float, 4 bool, 5 list of ints
  int32_t dtype;  // bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64
  int32_t rank;   // of the tensor, or length of the list
  int32_t pad;
  int64_t dims[8];
  void* data;
  int64_t integer;
  double number;
};

// Through the operator's definition and tiling; 0, or 1 (see twin_error).
int twin_run(const char* op, const TwinArgument* inputs, int inputCount, const TwinArgument* attributes, int attributeCount,
             const TwinArgument* outputs, int outputCount);

// Through a function of the project's own bind; its results are copied into `outputs`.
int twin_call(const char* function, const TwinArgument* arguments, int argumentCount, const TwinArgument* outputs, int outputCount);

// "CODE\taddresses\tmessage" of the last call that failed.
const char* twin_error();
}
