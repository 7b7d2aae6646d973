"""Random straight-line programs over aliased tensors, run on the CPU and on the device in each mode, and compared."""
