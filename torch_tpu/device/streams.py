"""Streams and events.

The device runs one stream: launches run in the order in which they were made. Other streams are names for it, so code
written for several runs as it is, in order. An event is a point in that order; one that takes the time waits for it.
"""

from types import TracebackType
from typing import Any

import torch

from torch_tpu import _C
from torch_tpu.device.devices import DeviceLike, index_of


class Stream(torch.Stream):
    def __new__(cls, device: DeviceLike = None, priority: int = 0, **identity: int) -> "Stream":
        if identity:  # stream_id, device_index and device_type of an existing one
            return super().__new__(cls, priority=priority, **identity)
        index_of(device)
        return super().__new__(cls, device=torch.device("tpu", 0), priority=priority)

    def __repr__(self) -> str:
        return f"<torch.tpu.Stream device=tpu:{self.device_index} stream={self.stream_id:#x}>"


class Event(torch.Event):
    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> "Event":
        return super().__new__(
            cls,
            device=torch.device("tpu", 0),
            enable_timing=enable_timing,
            blocking=blocking,
            interprocess=interprocess,
        )

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds from this event to the other, which PyTorch's own method takes of its exact type only."""
        return _C.elapsed_time(self.event_id, end_event.event_id)

    def __repr__(self) -> str:
        return f"<torch.tpu.Event {self.event_id:#x}>" if self.event_id else "<torch.tpu.Event uninitialized>"


def _own(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=int(stream.device_type))


def current_stream(device: DeviceLike = None) -> Stream:
    index_of(device)
    return _own(torch.accelerator.current_stream())


def default_stream(device: DeviceLike = None) -> Stream:
    index_of(device)
    return Stream(stream_id=0, device_index=0, device_type=int(current_stream().device_type))


def set_stream(stream: torch.Stream | None) -> None:
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Selects a stream for a while; ``None`` selects nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self.previous: Stream | None = None

    def __enter__(self) -> None:
        self.previous = current_stream()
        set_stream(self.stream)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_stream(self.previous)


def stream(stream: Any) -> StreamContext:
    return StreamContext(stream)
