// The header with which kernels include gelu.
#pragma once
#include "kernel_operator.h"
