// The header with which kernels include softmax_flash.
#pragma once
#include "kernel_operator.h"
