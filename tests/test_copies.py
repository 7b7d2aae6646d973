"""Between CPU and device: every dtype and layout, and what leaves the device as numbers."""

import copy

import numpy as np
import pytest
import torch
from torch.testing import assert_close

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]


def bits(t: torch.Tensor) -> torch.Tensor:
    """Bytes of the elements in order, so that NaN and -0 compare too."""
    return t.contiguous().reshape(-1).view(torch.uint8) if t.numel() else torch.empty(0, dtype=torch.uint8)


def sample(dtype: torch.dtype, n: int = 24) -> torch.Tensor:
    raw = torch.randint(0, 256, (n * dtype.itemsize,), dtype=torch.uint8)
    return (raw[:n] % 2).bool() if dtype == torch.bool else raw.view(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip_keeps_every_bit(dtype):
    x = sample(dtype)
    for t in (x, x.view(2, 3, 4), x[:0], x[3]):
        back = t.to("tpu").cpu()
        assert back.dtype == dtype and back.shape == t.shape
        assert torch.equal(bits(back), bits(t))
    y = torch.empty(24, dtype=dtype, device="tpu")
    y.copy_(x)
    assert torch.equal(bits(y.cpu()), bits(x))


LAYOUTS = {
    "transposed": lambda t: t.t(),
    "stepped": lambda t: t[::2, 1::3],
    "expanded": lambda t: t[:1].expand(5, 6),
    "column": lambda t: t[:, 2],
    "offset": lambda t: t.view(-1)[3:7],
    "element": lambda t: t[2, 3],
    "empty": lambda t: t[2:2],
    "windows": lambda t: t.unfold(1, 3, 1),
    "diagonal": lambda t: t.diagonal(),
    "flipped view": lambda t: t.as_strided((2, 2), (1, 7), 4),
    "bytes": lambda t: t.view(torch.uint8)[:, 1::4],
    "channels_last": lambda t: t.reshape(2, 3, 2, 2).contiguous(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_both_ways(name, mode):
    base = torch.arange(24.0).view(4, 6)
    view = LAYOUTS[name]
    up = view(base).to("tpu")
    assert_close(up.cpu(), view(base), rtol=0, atol=0)
    assert up.stride() == view(base).to("cpu", copy=True).stride()
    on_device = view(base.to("tpu"))
    assert_close(on_device.cpu(), view(base), rtol=0, atol=0)
    into = torch.full((30, 30), -1.0)
    target = into[: view(base).numel(), 0].view(view(base).shape) if view(base).dim() == 1 else None
    if target is not None:
        target.copy_(on_device)
        assert_close(target, view(base), rtol=0, atol=0)
        assert (into[:, 1:] == -1).all()


@pytest.mark.parametrize("name", [n for n in LAYOUTS if n not in ("expanded", "windows")])
def test_write_through_a_view(name, mode):
    """cpu -> part of a tpu tensor; the rest stays."""
    want, got = torch.arange(24.0).view(4, 6), torch.arange(24.0).view(4, 6).tpu()
    view = LAYOUTS[name]
    if name == "channels_last":
        want, got = view(want), view(got)
        view = lambda t: t[:, 1]  # noqa: E731
    fresh = sample(torch.uint8, view(want).numel()).to(view(want).dtype).reshape(view(want).shape)
    view(want).copy_(fresh)
    view(got).copy_(fresh)
    assert_close(got.cpu(), want, rtol=0, atol=0)
    view(got).copy_(view(got).clone())
    assert_close(got.cpu(), want, rtol=0, atol=0)


def test_broadcast_and_convert():
    x = torch.zeros(3, 4, device="tpu")
    x.copy_(torch.arange(4))
    assert_close(x.cpu(), torch.arange(4.0).expand(3, 4))
    x.copy_(torch.tensor(2.5, dtype=torch.float64))
    assert (x.cpu() == 2.5).all()
    y = torch.zeros(3, 4, dtype=torch.int64)
    y.copy_(x)
    assert (y == 2).all()
    half = torch.randn(5, dtype=torch.float64)
    assert_close(half.to("tpu", torch.bfloat16).cpu(), half.to(torch.bfloat16), rtol=0, atol=0)
    assert_close(half.tpu().to("cpu", torch.float16), half.to(torch.float16), rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="must match"):
        x.copy_(torch.ones(5))
    with pytest.raises(RuntimeError, match=r"must match|broadcast"):
        torch.ones(5).copy_(x)


def test_conjugate_and_negative_views(mode):
    z = torch.randn(4, dtype=torch.complex64)
    t = z.tpu()
    for view in (
        torch.conj,
        lambda v: v.conj().imag,
        lambda v: torch._neg_view(v),
        lambda v: torch._neg_view(v).conj(),
    ):
        want = view(z)
        assert_close(view(t).cpu(), want, rtol=0, atol=0)
        assert_close(want.to("tpu").cpu(), want, rtol=0, atol=0)
        assert_close(view(t).clone().cpu(), want.clone(), rtol=0, atol=0)
        assert_close(view(t).resolve_conj().resolve_neg().cpu(), want.resolve_conj().resolve_neg(), rtol=0, atol=0)
        a, b = torch.zeros(4, dtype=torch.complex64), torch.zeros(4, dtype=torch.complex64).tpu()
        view(a).copy_(want)
        view(b).copy_(want)
        assert_close(b.cpu(), a, rtol=0, atol=0)
        view(b).zero_() if view is torch.conj else None
        view(b).copy_(view(t))
        assert_close(
            b.cpu(), z if not want.dtype.is_floating_point else torch.complex(torch.zeros(4), z.imag), rtol=0, atol=0
        )
    assert_close(t.conj().item() if t.numel() == 1 else t[0].conj().item(), z[0].conj().item())


def test_the_source_stays_the_users(mode):
    """What the user may still write is never aliased, in either direction."""
    host = torch.arange(4096.0)
    x = host.to("tpu", non_blocking=True)
    host.zero_()
    back = x.to("cpu", non_blocking=True)
    back.add_(1)
    assert_close(x.cpu(), torch.arange(4096.0), rtol=0, atol=0)
    strided = torch.arange(8192.0)
    y = strided[::2].to("tpu")  # through a temporary of ours, read in place
    strided.zero_()
    y.add_(1)
    assert_close(y.cpu(), torch.arange(0.0, 8192.0, 2.0) + 1, rtol=0, atol=0)


def test_overlap_is_pytorchs_error():
    x = torch.arange(6.0).tpu()
    with pytest.raises(RuntimeError, match="single memory location"):
        x[:1].expand(4).copy_(torch.ones(4))
    with pytest.raises(RuntimeError, match="single memory location"):
        x[1:].copy_(x[:-1])


def test_downloads_compile_nothing():
    x = torch.arange(1024.0).view(32, 32).tpu()
    before = torch.tpu.compile_stats()
    for i in range(5):
        assert x[i, i].item() == 33.0 * i
        assert x[:, i].tolist() == list(range(i, 1024, 32))
        assert x.t()[i : i + 2].cpu().shape == (2, 32)
    assert x.untyped_storage().cpu().nbytes() == 4096
    after = torch.tpu.compile_stats()
    assert after["compiles"] == before["compiles"] and after["executions"] == before["executions"]


def test_numbers():
    assert torch.tensor(3).tpu().item() == 3 and isinstance(torch.tensor(3).tpu().item(), int)
    assert torch.tensor(True).tpu().item() is True
    assert torch.tensor(1 + 2j).tpu().item() == 1 + 2j
    assert float(torch.tensor([[2.5]]).tpu()) == 2.5 and int(torch.tensor(7).tpu()) == 7
    assert bool(torch.tensor(0.0).tpu()) is False
    assert torch.arange(6).view(2, 3).tpu().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [1, 2, 3][torch.tensor(1).tpu()] == 2
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        torch.ones(2).tpu().item()


def test_numpy_needs_the_cpu():
    x = torch.ones(3).tpu()
    with pytest.raises(TypeError, match="can't convert tpu:0 device type tensor to numpy"):
        x.numpy()
    with pytest.raises(TypeError, match="can't convert tpu:0 device type tensor to numpy"):
        np.asarray(x)
    assert x.numpy(force=True).tolist() == [1, 1, 1]
    assert torch.as_tensor(np.ones(3), device="tpu").is_tpu
    assert torch.from_numpy(np.arange(3)).tpu().tolist() == [0, 1, 2]


def test_dlpack_is_refused():
    x = torch.ones(3).tpu()
    with pytest.raises((ValueError, BufferError), match=r"[Dd]evice type tpu"):
        torch.from_dlpack(x)
    with pytest.raises((ValueError, BufferError, TypeError, RuntimeError)):
        np.from_dlpack(x)
    alias = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))  # a capsule of PyTorch's own comes back
    x.add_(1)
    assert alias.is_tpu and alias.tolist() == [2, 2, 2]


def test_meta_sparse_and_quantized():
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        torch.ones(2).tpu().copy_(torch.ones(2, device="meta"))
    assert torch.ones(2).tpu().to("meta").device.type == "meta"
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.eye(3).to_sparse().to("tpu")
    with pytest.raises(TypeError, match="device tpu has no dtype"):
        torch.empty(2, dtype=torch.complex32, device="tpu")


def test_deepcopy_and_identity_of_storage():
    x = torch.arange(6.0).tpu()
    view = x[2:4]
    assert x.data_ptr() != 0 and view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert view.data_ptr() == x.data_ptr() + 8
    alive = [torch.ones(3).tpu() for _ in range(20)]
    assert len({t.untyped_storage().data_ptr() for t in alive}) == 20
    a, b = copy.deepcopy([x, view])
    b.fill_(9)
    assert a.tolist() == [0, 1, 9, 9, 4, 5] and x.tolist() == [0, 1, 2, 3, 4, 5]
    assert copy.copy(x).data_ptr() == x.data_ptr()
