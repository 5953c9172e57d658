// The header with which kernels include atan.
#pragma once
#include "kernel_operator.h"
