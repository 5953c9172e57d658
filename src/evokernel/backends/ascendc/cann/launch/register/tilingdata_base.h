// The tiling header for a kernel that is compiled without an operator project: plain structs, read from global memory.
// It comes before CANN's header of the same name in the include path, which declares the host side.
#pragma once
#include <cstdint>

#include "kernel_tiling/kernel_tiling.h"

#undef BEGIN_TILING_DATA_DEF
#undef TILING_DATA_FIELD_DEF
#undef TILING_DATA_FIELD_DEF_ARR
#undef TILING_DATA_FIELD_DEF_STRUCT
#undef END_TILING_DATA_DEF
#undef REGISTER_TILING_DATA_CLASS
#define BEGIN_TILING_DATA_DEF(name) struct name {
#define TILING_DATA_FIELD_DEF(type, field) type field;
#define TILING_DATA_FIELD_DEF_ARR(type, count, field) type field[count];
#define TILING_DATA_FIELD_DEF_STRUCT(type, field) type field;
#define END_TILING_DATA_DEF }
#define REGISTER_TILING_DATA_CLASS(op, name)
