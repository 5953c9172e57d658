// The header with which kernels include sign.
#pragma once
#include "kernel_operator.h"
