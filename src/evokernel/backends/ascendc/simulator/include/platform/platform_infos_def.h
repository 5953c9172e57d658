// The simulator declares this in platform_info.h.
#pragma once
#include "platform/platform_info.h"
