"""Storages and geometry: what changes a tensor's shape without an operator."""

import pytest
import torch
from torch.testing import assert_close


def both(fn):
    want, got = fn(torch.arange(24.0).view(4, 6)), fn(torch.arange(24.0).view(4, 6).tpu())
    assert got.is_tpu and got.shape == want.shape and got.stride() == want.stride()
    assert got.storage_offset() == want.storage_offset()
    assert_close(got.cpu(), want, rtol=0, atol=0)


@pytest.mark.parametrize(
    "fn",
    [
        lambda t: t.view(-1),
        lambda t: t.t().reshape(3, 8),
        lambda t: t.unfold(0, 2, 1),
        lambda t: t.permute(1, 0).unsqueeze(1),
        lambda t: t.as_strided((3, 2), (7, 2), 1),
        lambda t: t.view(torch.int32)[1:].view(torch.float32),
        lambda t: t.view(torch.int64),
        lambda t: t.view(torch.uint8)[:, 4:8].view(torch.float32),
        lambda t: torch.view_as_complex(t.view(4, 3, 2)).real,
        lambda t: torch.view_as_real(torch.view_as_complex(t.view(4, 3, 2))),
        lambda t: t.squeeze().expand(2, 4, 6)[1, 1:3],
        lambda t: t.split([1, 3])[1].chunk(2, 1)[1],
        lambda t: t.movedim(0, 1).flatten(),
        lambda t: t.diagonal(1).view(1, -1)[0],
        lambda t: t.unflatten(1, (2, 3)).select(1, 1).narrow(0, 1, 2),
        lambda t: torch.ops.aten.alias(t.detach())[::3],
        lambda t: torch.empty(0, device=t.device).set_(t),
        lambda t: torch.empty(0, device=t.device).set_(t.untyped_storage(), 2, (2, 3), (6, 1)),
        lambda t: torch.empty(0, device=t.device).set_(t.untyped_storage()),
        lambda t: t.resize_(2, 3),
        lambda t: t[1:].resize_(2, 2),
        lambda t: t.clone().resize_as_(torch.empty(3, 4, device=t.device)),
    ],
)
def test_geometry(fn, mode):
    both(fn)


def test_growing_keeps_what_is_there(mode):
    x = torch.arange(4.0).tpu()
    alias = x[1:3]
    x.resize_(3, 3)
    assert x.view(-1)[:4].tolist() == [0, 1, 2, 3]
    x.view(-1)[2] = 9.0
    assert alias.tolist() == [1, 9]
    x.untyped_storage().resize_(8)
    assert x.untyped_storage().nbytes() == 8
    y = torch.ones(3).tpu()
    y.untyped_storage().resize_(0)
    assert y.untyped_storage().nbytes() == 0
    y.untyped_storage().resize_(12)
    y.copy_(torch.arange(3.0))
    assert y.tolist() == [0, 1, 2]


def test_set_to_nothing():
    x = torch.ones(3).tpu()
    x.set_()
    assert x.shape == (0,) and x.is_tpu


def test_storages():
    s = torch.arange(3.0).tpu().untyped_storage()
    assert s.device == torch.device("tpu:0") and s.nbytes() == 12 and s.is_tpu
    assert s.cpu().tolist() == torch.arange(3.0).untyped_storage().tolist()
    assert s.clone().data_ptr() != s.data_ptr()
    assert s[6] == 128
    t = torch.UntypedStorage(8, device="tpu")
    t.fill_(1)
    assert t.tolist() == [1] * 8
    t.copy_(torch.zeros(2).untyped_storage())
    assert t.tolist() == [0] * 8
    assert torch.ones(2).untyped_storage().tpu().tolist() == torch.ones(2).untyped_storage().tolist()
    assert torch.ones(2).tpu().is_set_to(torch.ones(2).tpu()) is False


def test_writes_through_stacked_views(mode):
    def fn(t):
        t.view(2, 12)[1].view(3, 4).t()[1:3, ::2] = -1
        t.as_strided((2, 2), (13, 3), 1).add_(100)
        t.view(torch.int32)[0].copy_(torch.arange(6, device=t.device, dtype=torch.int32))
        return t

    both(fn)


def test_errors_are_pytorchs():
    x = torch.ones(2, 3).tpu()
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        x.t().view(6)
    with pytest.raises(RuntimeError, match="shape '\\[5\\]' is invalid"):
        x.view(5)
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        x.as_strided((9,), (1,))
    with pytest.raises(NotImplementedError, match="Sparsetpu"):
        torch.empty(2, device="tpu", layout=torch.sparse_coo)
    with pytest.raises(RuntimeError, match="pinned"):
        torch.empty(2, device="tpu", pin_memory=True)
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.empty(-1, device="tpu")
