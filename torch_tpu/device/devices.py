"""Which device there is, and waiting for it."""

import os
import re
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias

import torch

from torch_tpu import _C

DeviceLike: TypeAlias = "torch.device | str | int | None"


def index_of(device: DeviceLike) -> int:
    """Index of a device argument: 0, or -1 for a negative int; an error for any other device."""
    if device is None:
        return 0
    if isinstance(device, int):
        index = device
    else:
        named = torch.device(device)
        if named.type != "tpu":
            raise ValueError(f"Expected a tpu device, but got: {named}")
        index = named.index or 0
    if index > 0:
        raise RuntimeError(f"device tpu:{index} does not exist: there is one device a process, tpu:0")
    return -1 if index < 0 else 0


def is_available() -> bool:
    """Whether there is a PJRT plugin to run on. Starts nothing."""
    return _C.configured()


def device_count() -> int:
    return int(is_available())


def init() -> None:
    """Starts the device, which otherwise happens when it is first needed."""
    _C.device_info()


def is_initialized() -> bool:
    return _C.started()


def current_device() -> int:
    return 0


def set_device(device: DeviceLike) -> None:
    index_of(device)


def _exchange_device(device: int) -> int:
    index_of(device)
    return 0


class device:
    """Context manager that selects a device; there is only one to select."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class device_of(device):
    """Context manager that selects the device of a tensor or storage, if that is a tpu device."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(obj.device if obj.device.type == "tpu" else -1)


def synchronize(device: DeviceLike = None) -> None:
    """Launches all that was recorded and waits until it has ended. Raises the first error of a launch."""
    index_of(device)
    _C.synchronize()


def get_device_name(device: DeviceLike = None) -> str:
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """Generation of the TPU and 0, as in (5, 0); (0, 0) where the device is no TPU."""
    found = re.search(r"TPU\s*v?(\d+)", get_device_properties(device).name)
    return (int(found.group(1)) if found else 0, 0)


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    return False


@dataclass(frozen=True)
class DeviceProperties:
    name: str  # the kind of chip, as the plugin names it
    total_memory: int  # bytes
    platform: str  # "tpu", "cpu"
    platform_version: str  # the compiler's build
    plugin: str  # path of the PJRT plugin
    api_version: tuple[int, int]  # of the PJRT C API
    major: int = 0
    minor: int = 0
    multi_processor_count: int = 1


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    index_of(device)
    info = _C.device_info()
    return DeviceProperties(
        name=info["kind"],
        total_memory=info["memory"] or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        platform=info["platform"],
        platform_version=info["platform_version"],
        plugin=info["plugin"],
        api_version=info["api_version"],
    )
