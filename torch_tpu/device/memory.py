"""The device's memory: exact accounts of live buffers, and for peaks also what running programs need beside them.

Nothing is cached, so what is reserved is what is allocated. ``TORCH_TPU_MEMORY_LIMIT`` (bytes) or
:func:`set_memory_limit` bound it; a program that would need more raises ``torch.OutOfMemoryError``, and leaves what is
live as it was.
"""

from typing import Any

import torch

from torch_tpu import _C
from torch_tpu.device.devices import DeviceLike, get_device_properties, index_of


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """All figures, under the names of ``torch.cuda.memory_stats``; empty before the device has started."""
    return torch.accelerator.memory_stats(index_of(device))


def memory_allocated(device: DeviceLike = None) -> int:
    index_of(device)
    return _C.memory_figures()["live"]


def max_memory_allocated(device: DeviceLike = None) -> int:
    index_of(device)
    return _C.memory_figures()["peak"]


def memory_reserved(device: DeviceLike = None) -> int:
    return memory_allocated(device)


def max_memory_reserved(device: DeviceLike = None) -> int:
    return max_memory_allocated(device)


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    index_of(device)
    _C.reset_peak()


def reset_max_memory_allocated(device: DeviceLike = None) -> None:
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    index_of(device)
    _C.reset_accumulated()


def empty_cache() -> None:
    """Gives memory back to the system that was freed and kept by the process, as a CPU device's is."""
    torch.accelerator.empty_cache()


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free and total bytes: of the limit, or of the machine where a CPU device has none."""
    return torch.accelerator.get_memory_info(index_of(device))


def get_memory_limit() -> int | None:
    return _C.memory_figures()["limit"] or None


def set_memory_limit(limit: int | None) -> None:
    """Bounds the device's memory to this many bytes; ``None`` takes the bound away."""
    if limit is not None and limit <= 0:
        raise ValueError(f"a memory limit is a positive number of bytes, got {limit}")
    _C.set_memory_limit(limit or 0)


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    set_memory_limit(max(1, int(fraction * get_device_properties(device).total_memory)))


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    limit = get_memory_limit()
    return 1.0 if limit is None else min(1.0, limit / get_device_properties(device).total_memory)


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """What is allocated, for people: totals, then buffers by type and by the Python line that made them."""
    index_of(device)
    figures = _C.memory_figures()
    text = (
        f"memory of device tpu:0, in bytes\n"
        f"  live       {figures['live']:>16,} in {figures['buffers']:,} buffers\n"
        f"  peak       {figures['peak']:>16,} with temporaries; {figures['most_buffers']:,} buffers\n"
        f"  limit      {figures['limit'] or 'none':>16{',' if figures['limit'] else ''}}\n"
        f"  allocated  {figures['allocated_bytes']:>16,} in {figures['allocations']:,} buffers since the start\n"
        f"  out of memory {figures['out_of_memory']:,} times\n"
    )
    return text if abbreviated else f"{text}live, by size:{_C.live_memory(32)}\n"
