// The header with which kernels include geglu.
#pragma once
#include "kernel_operator.h"
