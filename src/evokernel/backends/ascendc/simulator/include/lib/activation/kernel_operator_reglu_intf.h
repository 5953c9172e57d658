// The header with which kernels include reglu.
#pragma once
#include "kernel_operator.h"
