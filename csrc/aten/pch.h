// Precompiled: the PyTorch headers that aten/ needs. Everything below aten/ compiles without PyTorch.
#pragma once

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>
