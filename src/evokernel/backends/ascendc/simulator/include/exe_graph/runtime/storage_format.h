// Part of tensor.h here.
#pragma once
#include "exe_graph/runtime/tensor.h"
