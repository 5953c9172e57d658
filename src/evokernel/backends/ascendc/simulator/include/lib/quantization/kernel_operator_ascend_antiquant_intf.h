// The header with which kernels include ascend_antiquant.
#pragma once
#include "kernel_operator.h"
