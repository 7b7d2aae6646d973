"""``python -m torch_tpu.demo``: trains a small GPT on device ``tpu`` in two eager modes, and on the CPU beside it."""
