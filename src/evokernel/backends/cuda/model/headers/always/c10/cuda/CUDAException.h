#pragma once
#include <evokernel_cuda.h>
