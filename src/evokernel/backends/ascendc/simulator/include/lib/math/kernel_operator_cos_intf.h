// The header with which kernels include cos.
#pragma once
#include "kernel_operator.h"
