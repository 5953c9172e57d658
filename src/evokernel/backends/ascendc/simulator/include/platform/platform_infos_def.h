// Part of platform_info.h here.
#pragma once
#include "platform/platform_info.h"
