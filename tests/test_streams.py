"""Streams and events: one order of launches, under the names that PyTorch knows."""

import pytest
import torch


def test_streams_compare_and_select():
    default, other = torch.tpu.default_stream(), torch.tpu.Stream()
    assert isinstance(other, torch.Stream) and other.device == torch.device("tpu:0")
    assert torch.tpu.current_stream() == default != other
    with torch.tpu.stream(other):
        assert torch.tpu.current_stream() == other
        with torch.tpu.stream(None):
            assert torch.tpu.current_stream() == other
    assert torch.tpu.current_stream() == default
    torch.tpu.set_stream(other)
    assert torch.accelerator.current_stream() == other
    torch.tpu.set_stream(default)
    with other:
        assert torch.tpu.current_stream() == other
    assert repr(default) == "<torch.tpu.Stream device=tpu:0 stream=0x0>"
    assert torch.Stream("tpu").device == torch.device("tpu:0")


def test_work_is_in_order(mode):
    a, b = torch.tpu.Stream(), torch.tpu.Stream(priority=-1)
    x = torch.ones(64, 64).tpu()
    with torch.tpu.stream(a):
        x = x + x
        done = a.record_event()
    b.wait_event(done)
    b.wait_stream(a)
    with torch.tpu.stream(b):
        x = x * x
    x.record_stream(b)
    b.synchronize()
    done.synchronize()
    assert a.query() and b.query() and done.query()
    assert torch.equal(x.cpu(), torch.full((64, 64), 4.0))


def test_events(mode):
    start, end = torch.tpu.Event(enable_timing=True), torch.tpu.Event(enable_timing=True)
    assert isinstance(start, torch.Event) and start.query()
    x = torch.ones(200, 200).tpu()
    start.record()
    for _ in range(50):
        x = x + 1
    end.record(torch.tpu.current_stream())
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 60_000
    untimed = torch.tpu.Event()
    with pytest.raises(RuntimeError, match="recorded"):
        start.elapsed_time(untimed)
    untimed.record()
    with pytest.raises(ValueError, match="enable_timing"):
        start.elapsed_time(untimed)
    untimed.wait()
    torch.Event("tpu").record()
    assert repr(untimed).startswith("<torch.tpu.Event 0x")
