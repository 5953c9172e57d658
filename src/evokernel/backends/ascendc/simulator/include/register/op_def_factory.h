// Part of op_def.h here.
#pragma once
#include "register/op_def.h"
