"""``torch.tpu``: the device's module, with the names and signatures of ``torch.cuda``.

One process drives one device, so an index is 0 wherever PyTorch takes one.
"""

from typing import Any

import torch

from torch_tpu import _C
from torch_tpu.device import devices
from torch_tpu.device.devices import (
    DeviceLike,
    DeviceProperties,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_initialized,
    set_device,
    synchronize,
)
from torch_tpu.device.memory import (
    empty_cache,
    get_memory_limit,
    get_per_process_memory_fraction,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
    set_memory_limit,
    set_per_process_memory_fraction,
)
from torch_tpu.device.random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_tpu.device.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)


def compile_stats() -> dict[str, int]:
    """Counts since the process began: programs compiled or found in a cache tier, launches, operators, fallbacks.

    ``materializations`` counts cuts that a sink forced, ``unfused`` regions like none before that were launched call by
    call; ``peak_bytes`` is :func:`max_memory_allocated`.
    """
    return _C.compile_stats()


def cache_stats() -> dict[str, int]:
    """Each tier of the cache of compiled programs: how often it had one, and bytes.

    ``memory``, ``shared`` (memory of this machine), ``disk`` and ``remote`` (a URL) come with ``_hits``; the last three
    with ``_bytes_read`` and ``_bytes_written`` since the process began; ``memory_programs``, ``memory_bytes`` and
    ``memory_evictions`` are of the executables in memory.
    """
    stats = _C.compile_stats()
    figures = {f"{tier}_hits": stats[f"{tier}_hits"] for tier in ("memory", "shared", "disk", "remote")}
    figures |= {"compiles": stats["compiles"], "memory_programs": stats["programs"]}
    figures |= {"memory_bytes": stats["program_bytes"], "memory_evictions": stats["evictions"]}
    return figures | _C.cache_traffic()


def compile_log() -> list[dict[str, Any]]:
    """The executables that were made last, oldest first: name, key, where each came from, and seconds.

    The key has three parts, so that it tells why a program was compiled once more: another ``structure`` (operators and
    how they feed each other), other ``dimensions``, or other ``options`` (of the compiler, the plugin, the machine).
    """
    return _C.cache_log()


def fallback_counts() -> dict[str, int]:
    """How often each operator without a lowering ran on the CPU."""
    return _C.fallback_counts()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


def _is_in_bad_fork() -> bool:
    return _C.forked()


def _is_compiled() -> bool:
    return True


_lazy_init = init
_exchange_device = _maybe_exchange_device = devices._exchange_device

# torch.utils.checkpoint keeps the random state only of a device that says so.
_initialized = True

__all__ = [
    "DeviceLike",
    "DeviceProperties",
    "Event",
    "Stream",
    "StreamContext",
    "cache_stats",
    "can_device_access_peer",
    "compile_log",
    "compile_stats",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "fallback_counts",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_memory_limit",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_memory_limit",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]
