"""Tensors from nothing, copies and conversions."""

import pytest
import torch
from ops.samples import LAYOUTS, layouts, values
from oracle import MODES, check, launches

DTYPES = [
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8),
    *(torch.uint8, torch.bool, torch.complex64),
]


def check_new(fn, **how):
    """``fn(device=...)`` gives the same on both devices."""
    check(lambda like: fn(device=like.device), torch.zeros(()), **how)


@pytest.mark.parametrize("dtype", [None, *DTYPES], ids=str)
@pytest.mark.parametrize("fn", [torch.zeros, torch.ones, torch.eye])
def test_constants(fn, dtype):
    check_new(lambda device: fn(3, 4, dtype=dtype, device=device), exact=True)


@pytest.mark.parametrize("value", [0, 1, 7, 2.5, True, 1 + 2j, float("nan"), -float("inf")])
def test_full(value):
    check_new(lambda device: torch.full((2, 3), value, device=device))
    check_new(lambda device: torch.scalar_tensor(value, device=device, dtype=torch.complex64))
    check(lambda x: (torch.full_like(x, value), x.new_full((2,), value)), values(3, 4, dtype=torch.complex64))


def test_full_converts():
    check_new(lambda device: torch.full((3,), 2.75, dtype=torch.int32, device=device))
    check_new(lambda device: torch.full((), 3, dtype=torch.bool, device=device))
    check_new(lambda device: torch.full((0, 2), 3.0, device=device))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_like(layout):
    x = layouts()[layout]
    check(lambda x: (torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 2)), x, strides=True)
    check(lambda x: (torch.zeros_like(x, dtype=torch.int64), x.new_ones(2, 3), x.new_zeros(())), x)


@pytest.mark.parametrize(
    "args",
    [
        (5,),
        (2, 7),
        (2, 17, 3),
        (5, -5, -2),
        (0.0, 1, 0.1),
        (-1.5, 2.5),
        (3.5, 0, -0.5),
        (0.3, 77.7, 0.07),
        (0,),
        (2, 2),
    ],
)
def test_arange(args):
    check_new(lambda device: torch.arange(*args, device=device))
    for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.float64):
        if dtype == torch.int64 and any(isinstance(a, float) for a in args):
            continue  # a step of 0.1 is 0 there
        check_new(lambda device, dtype=dtype: torch.arange(*args, dtype=dtype, device=device))


def test_arange_of_the_same_length_compiles_nothing():
    torch.arange(3, 8, device="tpu")
    compiled = torch.tpu.compile_stats()["compiles"]
    for start in range(4, 9):
        got = torch.arange(start, start + 5, device="tpu")
        assert got.tolist() == list(range(start, start + 5))
    assert torch.tpu.compile_stats()["compiles"] == compiled
    assert torch.arange(3, 9, device="tpu").tolist() == list(range(3, 9))


def test_arange_out_and_errors():
    check_new(lambda device: torch.arange(3, 9, 2, out=torch.empty(0, dtype=torch.int64, device=device)))
    with pytest.raises(RuntimeError, match=r"larger|bound"):
        torch.arange(3, 1, device="tpu")
    with pytest.raises(RuntimeError, match="nonzero"):
        torch.arange(3, 1, 0, device="tpu")
    start = 2**60
    check_new(lambda device: torch.arange(start, start + 3, device=device), exact=True)
    check_new(lambda device: torch.arange(start, start + 4, device=device), exact=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("args", [(0, 10, 5), (-3.5, 7, 8), (5, 1, 4), (2, 9, 1), (1, 2, 0)])
def test_spaces(args, dtype):
    check_new(lambda device: torch.linspace(*args, dtype=dtype, device=device))
    if dtype.is_floating_point:
        check_new(lambda device: torch.logspace(args[0] / 8, args[1] / 8, args[2], dtype=dtype, device=device))


def test_linspace_of_tensors():
    check(lambda x: torch.linspace(x[0], x[1], 5, device=x.device), values(2))


@pytest.mark.parametrize("diagonal", [0, 1, -1, 3, -9, 100])
@pytest.mark.parametrize("fn", [torch.tril, torch.triu])
def test_triangles(fn, diagonal):
    for x in (values(4, 5), values(2, 3, 3, dtype=torch.bool), values(5, 3).t(), values(0, 3)):
        check(lambda x: fn(x, diagonal), x)
    check(lambda x: x.tril_(diagonal), values(4, 4))


@pytest.mark.parametrize("fn", [torch.tril_indices, torch.triu_indices])
@pytest.mark.parametrize("args", [(3, 3), (4, 3, 1), (3, 5, -1), (2, 2, 9), (2, 2, -9), (0, 3)])
def test_triangle_indices(fn, args):
    check_new(lambda device: fn(*args, device=device), exact=True)
    check_new(lambda device: fn(*args, dtype=torch.int32, device=device), exact=True)


@pytest.mark.parametrize("mode", MODES)
def test_fills(mode):
    def run(x, v):
        y = x.clone()
        y[1].fill_(2.5)
        y[:, 2].zero_()
        y.t()[0].fill_(v[0])
        return y, torch.fill(x, 3), x.zero_()

    check(run, values(3, 4), values(2), mode=mode)


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_conversions(source):
    for target in DTYPES:
        low = 0 if torch.uint8 in (source, target) else -4
        x = values(3, 4, dtype=source, low=low)
        if not (source.is_complex and not target.is_complex):
            check(lambda x, t=target: x.to(t), x, exact=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_conversions_keep_strides(layout):
    x = layouts()[layout]
    check(lambda x: (x.to(torch.float64), x.clone(), x.contiguous(), x.half()), x, strides=True)


def test_memory_formats():
    def run(x):
        y = x.to(memory_format=torch.channels_last)
        return y, y.double(), y.clone(), y.contiguous(), x.to(torch.half, memory_format=torch.channels_last), y + 1

    check(run, values(2, 3, 4, 5), strides=True)


def test_a_conversion_is_one_launch():
    x = torch.ones(3, device="tpu")
    for fn in (lambda: x.double(), lambda: x.to(torch.bool), lambda: x.clone(), lambda: torch.zeros(3, device="tpu")):
        with launches() as count:
            fn()
        assert count() == 1


def test_moves():
    x = values(3, 4)
    on = x.to("tpu", torch.float64)
    assert on.device.type == "tpu"
    assert on.dtype == torch.float64
    assert torch.equal(on.to("cpu", torch.float32), x)
    assert on.to("tpu") is on
    assert on.to("tpu:0", copy=True) is not on
    assert on.to("meta").device.type == "meta"
    assert on.t().to("cpu").stride() == (1, 4)
    y = x.clone().requires_grad_()
    y.to("tpu").double().sum().backward()
    assert torch.equal(y.grad, torch.ones(3, 4))
    with pytest.raises(RuntimeError, match="tpu:7"):
        on.to("tpu:7")
