// The header with which kernels include arithprogression.
#pragma once
#include "kernel_operator.h"
