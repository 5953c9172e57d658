// Alternative path of the same header.
#pragma once
#include "tiling/platform/platform_ascendc.h"
