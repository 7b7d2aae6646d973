"""torch.tpu."""

import torch

from torch_tpu import _C


def is_available() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def synchronize(device: object = None) -> None:
    _C.synchronize()


def _is_in_bad_fork() -> bool:
    return False


def manual_seed_all(seed: int) -> None:
    _C.default_generator().manual_seed(seed)


manual_seed = manual_seed_all


def compile_stats() -> dict[str, int]:
    return _C.compile_stats()
