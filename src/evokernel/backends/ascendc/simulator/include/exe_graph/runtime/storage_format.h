// The simulator declares this in tensor.h.
#pragma once
#include "exe_graph/runtime/tensor.h"
