// The header with which kernels include power.
#pragma once
#include "kernel_operator.h"
