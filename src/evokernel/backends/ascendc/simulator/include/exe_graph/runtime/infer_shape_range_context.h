// The simulator declares this in infer_shape_context.h.
#pragma once
#include "exe_graph/runtime/infer_shape_context.h"
