// Part of extension.h here.
#pragma once
#include "torch/extension.h"
