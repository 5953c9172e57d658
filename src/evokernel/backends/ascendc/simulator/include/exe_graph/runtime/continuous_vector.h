// The simulator declares this in runtime_attrs.h.
#pragma once
#include "exe_graph/runtime/runtime_attrs.h"
