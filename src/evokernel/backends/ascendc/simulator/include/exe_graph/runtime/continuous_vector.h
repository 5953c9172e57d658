// Part of runtime_attrs.h here.
#pragma once
#include "exe_graph/runtime/runtime_attrs.h"
