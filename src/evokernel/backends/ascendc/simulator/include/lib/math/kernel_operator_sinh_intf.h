// The header with which kernels include sinh.
#pragma once
#include "kernel_operator.h"
