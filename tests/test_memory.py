"""Accounts of memory, the limit, and what happens at it."""

import gc
import os
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import torch_tpu

MEGA = 1 << 20


def live() -> int:
    gc.collect()
    torch.tpu.synchronize()
    return torch.tpu.memory_allocated()


def test_live_bytes_are_exact():
    start = live()
    x = torch.zeros(256, 1024).tpu()
    assert live() - start == MEGA
    y = x[10:]  # a view owns nothing
    z = x + x
    assert live() - start == 2 * MEGA
    del z
    assert live() - start == MEGA
    x.add_(1)  # in place: no second copy stays
    assert live() - start == MEGA
    del x
    assert live() - start == MEGA
    del y
    assert live() == start


def test_peak_counts_results_and_is_reset():
    x = torch.zeros(256, 1024).tpu()
    start = live()
    torch.tpu.reset_peak_memory_stats()
    assert torch.tpu.max_memory_allocated() == start
    x + x
    assert torch.tpu.max_memory_allocated() >= start + MEGA
    assert torch.tpu.compile_stats()["peak_bytes"] == torch.tpu.max_memory_allocated()
    torch.tpu.reset_peak_memory_stats()
    x.add_(1)
    assert torch.tpu.max_memory_allocated() == start, "an update in place needs no more"


def test_statistics():
    x = torch.zeros(1000).tpu()
    stats = torch.tpu.memory_stats()
    assert stats["allocated_bytes.all.current"] == torch.tpu.memory_allocated() == torch.tpu.memory_reserved()
    assert stats["allocated_bytes.all.peak"] == torch.tpu.max_memory_allocated() == torch.tpu.max_memory_reserved()
    assert stats["allocation.all.current"] >= 1 and stats["num_ooms"] >= 0
    assert torch.accelerator.max_memory_allocated() == torch.tpu.max_memory_allocated()
    free, total = torch.tpu.mem_get_info()
    assert 0 < free <= total == torch.tpu.get_device_properties().total_memory
    summary = torch.tpu.memory_summary()
    assert re.search(r"4000 bytes in \d+ x tensor<1000xf32> made at .*test_memory.py:\d+", summary), summary
    assert "made at" not in torch.tpu.memory_summary(abbreviated=True)
    torch.tpu.empty_cache()
    torch.tpu.reset_accumulated_memory_stats()
    assert torch.tpu.memory_stats()["allocation.all.allocated"] == 0
    del x


@pytest.mark.parametrize("eager", ["strict", "debug", "defer"])
def test_out_of_memory(eager):
    torch_tpu.eager_mode(eager)
    x = torch.zeros(256, 1024).tpu()
    torch.tpu.set_memory_limit(live() + MEGA + MEGA // 2)
    kept = x + 1
    torch.tpu.synchronize()
    before = live()
    with pytest.raises(torch.OutOfMemoryError) as caught:
        more = x * kept
        more.cpu()
    text = str(caught.value)
    assert re.search(r"tpu out of memory: aten::mul\S* at \S*\.py:\d+ needs 1048576 bytes for its results", text), text
    assert re.search(r"1048576 bytes in 1 x tensor<256x1024xf32> made at \S*test_memory.py:\d+", text), text
    del caught
    more = None
    assert live() == before, "what was live is as it was"
    assert torch.tpu.memory_stats()["num_ooms"] >= 1
    with pytest.raises(torch.OutOfMemoryError, match="an upload"):
        torch.zeros(1024, 1024).tpu()
    del kept
    assert (x * x).cpu().sum() == 0, "freeing and going on works"


def test_limits():
    total = torch.tpu.get_device_properties().total_memory
    torch.tpu.set_per_process_memory_fraction(0.5)
    assert torch.tpu.get_memory_limit() == int(total * 0.5)
    assert torch.tpu.mem_get_info()[1] == int(total * 0.5)
    assert torch.tpu.get_per_process_memory_fraction() == pytest.approx(0.5)
    torch.tpu.set_memory_limit(None)
    assert torch.tpu.get_memory_limit() is None and torch.tpu.get_per_process_memory_fraction() == 1.0
    with pytest.raises(TypeError, match="must be `float`"):
        torch.tpu.set_per_process_memory_fraction(1)
    with pytest.raises(ValueError, match=r"Invalid fraction value: 1\.5"):
        torch.tpu.set_per_process_memory_fraction(1.5)
    with pytest.raises(ValueError, match="positive number of bytes"):
        torch.tpu.set_memory_limit(0)


def test_limit_from_the_environment(python):
    code = """
        import torch
        print(torch.tpu.get_memory_limit())
        try:
            torch.zeros(1000).tpu()
        except torch.OutOfMemoryError as error:
            print("of 1000 bytes are in use" in str(error))
    """
    assert python(code, TORCH_TPU_MEMORY_LIMIT="1000").out == "1000\nTrue\n"
    wrong = python("import torch_tpu", TORCH_TPU_MEMORY_LIMIT="1G", TORCH_DEVICE_BACKEND_AUTOLOAD="0", code_expected=1)
    assert "TORCH_TPU_MEMORY_LIMIT is a number of bytes, got '1G'" in wrong.err


def test_steps_without_a_sink_keep_memory_flat(mode: str) -> None:
    """The host runs ahead of the device, but not without bounds: neither buffers nor what is recorded pile up."""
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)).tpu()
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = torch.randn(32, 64).tpu(), torch.randint(0, 8, (32,)).tpu()

    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")

    def run(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    run(400)
    torch.tpu.reset_peak_memory_stats()
    before, bytes_before = resident(), torch.tpu.memory_allocated()
    run(1200 if mode == "defer" else 300)
    assert resident() - before < 64 << 20
    # A step's own values are let go at its cut, which falls some nodes after it.
    assert torch.tpu.max_memory_allocated() < 2 * bytes_before + (2 << 20)
