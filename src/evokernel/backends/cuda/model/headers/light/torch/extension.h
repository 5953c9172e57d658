#pragma once
#include <evokernel_torch.h>
