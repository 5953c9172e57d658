// The header with which kernels include round.
#pragma once
#include "kernel_operator.h"
