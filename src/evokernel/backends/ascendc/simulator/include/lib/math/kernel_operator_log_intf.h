// The header with which kernels include log.
#pragma once
#include "kernel_operator.h"
