// Alternative path of the same header.
#pragma once
#include "log/log.h"
