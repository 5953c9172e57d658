// Part of ops_log.h here.
#pragma once
#include "log/ops_log.h"
