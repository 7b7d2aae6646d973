"""Reading and writing at positions that tensors hold."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import MODES, check, check_error, check_grad, launches
from samples import LAYOUTS, layouts, values

import torch_tpu

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)


def positions(size: int, *shape: int, low: int = 0, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(low, size, shape, generator=torch.Generator().manual_seed(3)).to(dtype)


def distinct(size: int, count: int) -> torch.Tensor:
    return torch.randperm(size, generator=torch.Generator().manual_seed(3))[:count]


index_put = torch.ops.aten.index_put  # takes None, unlike the method

READS: dict[str, Callable[[torch.Tensor], Any]] = {
    "one": lambda x: (x, positions(4, 3)),
    "negative": lambda x: (x, positions(4, 5, low=-4)),
    "matrix": lambda x: (x, positions(4, 2, 3)),
    "empty": lambda x: (x, positions(4, 0)),
    "0-d": lambda x: (x, positions(4).reshape(())),
    "int32": lambda x: (x, positions(4, 3, dtype=torch.int32)),
    "two": lambda x: (x, positions(4, 3), positions(5, 3)),
    "broadcast": lambda x: (x, positions(4, 3, 1), positions(5, 2)),
    "gap": lambda x: (x, positions(4, 3), None, positions(3, 3)),
    "late": lambda x: (x, None, positions(5, 2), positions(3, 2)),
    "last": lambda x: (x, None, None, positions(3, 2, 2)),
    "all": lambda x: (x, positions(4, 2), positions(5, 2), positions(3, 2)),
}


def at(indices: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices)


@pytest.mark.parametrize("how", READS)
def test_read(how: str) -> None:
    check(lambda x, *i: x[at(i)], *READS[how](values(4, 5, 3)), strides=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_read_dtypes(dtype: torch.dtype) -> None:
    check(lambda x, i, j: x[i, :, j], values(4, 5, 3, dtype=dtype), positions(4, 3), positions(3, 3))


def test_read_layouts() -> None:
    for name, x in layouts().items():
        if name in ("scalar", "empty"):
            continue
        check(lambda x, i: x[i], x, positions(x.size(0), 3))
        check(lambda x, i: x[:, i], x, positions(x.size(1), 3))


@pytest.mark.parametrize("mode", MODES)
def test_read_and_its_gradient(mode: str) -> None:
    check_grad(lambda x, i: x[i], values(4, 5).requires_grad_(), positions(4, 6), mode=mode)
    check_grad(lambda x, i: x[:, i], values(4, 5).requires_grad_(), positions(5, 2, 2), mode=mode)


def test_plain_python_indices() -> None:
    check(
        lambda x: (x[[1, -1], 2], x[True], x[False], x[None, 2], x[..., [0, 2]], x[torch.tensor([3, 0]), 1]),
        values(4, 5),
    )


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("how", [h for h in READS if h != "empty"])
def test_write(how: str, accumulate: bool) -> None:
    x, *i = READS[how](values(4, 5, 3))
    if not accumulate:  # the last of several writes to one place is anybody's guess
        i = [None if v is None else distinct(v.numel() + 2, v.numel()).reshape(v.shape) % 3 for v in i]
        if any(v is not None and len(v.unique()) < v.numel() for v in i):
            i = [None if v is None else torch.zeros_like(v) for v in i]
            check(lambda x, *i: index_put(x, i, x.new_tensor(2.5)), x, *i)
            return
    v = x[at(tuple(i))] * 3
    check(lambda x, v, *i: index_put(x, i, v, accumulate), x, v, *i)
    check(lambda x, v, *i: torch.ops.aten.index_put_(x, i, v.new_tensor(1.5), accumulate), x, v, *i)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_accumulate_dtypes(dtype: torch.dtype) -> None:
    check(
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        values(4, 5, dtype=dtype),
        torch.tensor([1, 1, 3]),
        values(3, 5, dtype=dtype, seed=1),
    )


def test_write_and_its_gradient() -> None:
    x, v = values(4, 5).requires_grad_(), values(5, seed=1).requires_grad_()
    check_grad(lambda x, i, v: x.index_put((i,), v), x, positions(4, 1), v)
    check_grad(lambda x, i, v: x.index_put((i,), v, accumulate=True), x, positions(4, 3), v)


def test_writes_that_do_not_fit() -> None:
    x, i = torch.ones(4, 5, device="tpu"), torch.tensor([1, 2], device="tpu")
    with pytest.raises(RuntimeError, match="shape mismatch: value tensor of shape"):
        x[i] = torch.ones(3, device="tpu")
    with pytest.raises(IndexError, match="dtypes match"):
        x.index_put_((i,), torch.ones(5, device="tpu", dtype=torch.int64))


def test_masks_are_selects() -> None:
    def write(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[m] = 2.5
        x[m[:, 0]] = x.new_tensor(-1.0)
        x[:, m[0]] = x.new_ones(4, 1)
        return x

    x = values(4, 5)
    for mode in MODES:
        check(write, x, x > 1, mode=mode)
    tx, tm = x.to("tpu"), (x > 1).to("tpu")
    write(tx, tm)
    before = torch.tpu.compile_stats()
    write(tx, tm)
    after = torch.tpu.compile_stats()
    assert after["materializations"] == before["materializations"]
    assert after["compiles"] == before["compiles"]


def test_masked_writes_of_many() -> None:
    def write(x: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.index_put((m,), v, accumulate=True), x.index_put((m,), v)

    x, m = values(4, 5), values(4, 5) > 0
    check(write, x, m, values(int(m.sum()), seed=1))
    check(write, x, m[:, 0], values(int(m[:, 0].sum()), 5, seed=1))
    check(write, x, m[:, 0], values(5, seed=1))
    check(lambda x, m, v: index_put(x, (None, m), v), x, m[0], values(4, int(m[0].sum()), seed=1))
    check_grad(write, x.requires_grad_(), m, values(int(m.sum()), seed=1).requires_grad_())
    with pytest.raises(RuntimeError, match="shape mismatch"):
        write(x.detach().to("tpu"), m.to("tpu"), torch.ones(int(m.sum()) + 1, device="tpu"))
    with pytest.raises(IndexError, match="shape of the mask"):
        x.detach().to("tpu")[m.t().to("tpu")]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_slices(dtype: torch.dtype) -> None:
    x, v = values(4, 5, dtype=dtype), values(3, 5, dtype=dtype, seed=1)
    few = distinct(4, 3)
    check(lambda x, i: (x.index_select(0, i), x.index_select(-1, i)), x, few)
    check(lambda x, i, v: x.index_copy(0, i, v), x, few, v)
    check(lambda x, i: x.index_fill(1, i, 1), x, few)
    check(lambda x, i, v: x.index_fill(0, i - 4, v[0, 0]), x, few, v)
    check(lambda x, i, v: x.index_add(0, i, v), x, torch.tensor([2, 2, 0]), v)
    if dtype != torch.bool:
        check(lambda x, i, v: x.index_add_(0, i, v, alpha=2), x, torch.tensor([2, 2, 0]), v)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_slices_of_layouts(layout: str) -> None:
    x = layouts()[layout]
    i = torch.zeros(0 if x.numel() == 0 else 1, dtype=torch.int64)
    check(lambda x, i: x.index_select(0, i), x, i)
    check(lambda x, i: x.clone().index_fill_(0, i, 3.0), x, i)
    check(lambda x, i: x.index_add(0, i, x.index_select(0, i)), x, i)
    check(lambda x, i: x.index_copy(0, i, x.index_select(0, i) * 2), x, i)


def test_slices_and_their_gradients() -> None:
    x, v, i = values(4, 5).requires_grad_(), values(3, 5, seed=1).requires_grad_(), positions(4, 3)
    check_grad(lambda x, i: x.index_select(0, i), x, i)
    check_grad(lambda x, i, v: x.index_add(0, i, v, alpha=0.5), x, i, v)
    check_grad(lambda x, i, v: x.index_copy(0, i, v), x, distinct(4, 3), v)
    check_grad(lambda x, i, v: x.index_fill(0, i, v[0, 0]), x, i, v)


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("how", ["prod", "mean", "amax", "amin"])
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_index_reduce(how: str, include: bool) -> None:
    i = torch.tensor([2, 2, 0])
    for dtype in (torch.float32, torch.int64):
        x, v = values(4, 5, dtype=dtype), values(3, 5, dtype=dtype, seed=1)
        check(lambda x, i, v: x.index_reduce(0, i, v, how, include_self=include), x, i, v)
    x, v = values(4, 5).requires_grad_(), values(3, 5, seed=1).requires_grad_()
    check_grad(lambda x, i, v: x.index_reduce(0, i, v, how, include_self=include), x, i, v)


def test_flat() -> None:
    x, i = values(4, 5), positions(20, 2, 3, low=-20)
    check_grad(lambda x, i: x.take(i), x.clone().requires_grad_(), i)
    check(lambda x, i: x.t().take(i), x, i)
    check(lambda x, i, v: x.put(i, v), x, distinct(20, 3), values(3, seed=1))
    check(lambda x, i, v: x.put_(i, v, accumulate=True), x, torch.tensor([1, 1, -2]), values(3, seed=1))
    check(lambda x, i: x.take_along_dim(i, 1), x, positions(5, 4, 2))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_masked_fill(dtype: torch.dtype) -> None:
    x, m = values(4, 5, dtype=dtype), values(4, 5) > 0
    check(lambda x, m: x.masked_fill(m, 1), x, m)
    check(lambda x, m: x.masked_fill(m[0], x[0, 0]), x, m)
    check(lambda x, m: x[0].masked_fill(m, 0), x, m)
    check(lambda x, m: x.t().masked_fill_(m.t(), 3), x, m)


def test_masked_fill_of_edges() -> None:
    x = torch.tensor([1.0, float("nan"), float("-inf"), 0])
    m = torch.tensor([True, False, True, False])
    for value in (float("nan"), float("-inf"), 0, -0.0, 1e-30):
        check(lambda x, m, v=value: x.masked_fill(m, v), x, m, exact=True)
    check_grad(
        lambda x, m, v: x.masked_fill(m, v), values(4).requires_grad_(), m, torch.tensor(2.0, requires_grad=True)
    )
    with launches() as n:
        torch.ones(4, device="tpu").masked_fill_(m.to("tpu"), 0.25)
        assert n() <= 2


def test_masked_scatter() -> None:
    x, m = values(4, 5), values(4, 5) > 0
    check_grad(lambda x, m, s: x.masked_scatter(m, s), x.requires_grad_(), m, values(20, seed=1).requires_grad_())
    check(lambda x, m, s: x.masked_scatter_(m[0], s), x.detach(), m, values(4, 5, seed=1))


def test_new_positions_compile_nothing() -> None:
    x = values(6, 5).to("tpu").requires_grad_()

    def step(i: int) -> None:
        at = torch.tensor([i, i + 1], device="tpu")
        y = x[i] + x[:, i - 1].sum() + x[i:].sum() + x[at].sum() + x.index_select(0, at).sum()
        torch.autograd.grad(y.sum(), x)
        x.detach()[i] = 1.0

    step(1)
    step(2)
    before = torch.tpu.compile_stats()["compiles"]
    for i in (0, 3):
        y = x[i] + x[:, i - 1].sum()
        torch.autograd.grad(y.sum(), x)
    assert torch.tpu.compile_stats()["compiles"] == before


def test_places_of_one_constant_element() -> None:
    """Found by the fuzzer: the newest CPU compiler ended the process."""
    with torch_tpu.eager_mode("defer"):
        x = torch.ones(1, dtype=torch.bool).tpu()
        x.zero_()
        assert x[torch.tensor([0, -1]).tpu()].nonzero().shape == (0, 1)


def test_index_select_refuses() -> None:
    x, at = torch.randn(2, 3), torch.zeros(2, 2, dtype=torch.long)
    check_error(lambda x, at: x.index_select(0, at), x, at)
    check_error(lambda x, at: x.index_select(2, at[0]), x, at)


def test_nonzero_static_lies_in_rows() -> None:
    check(lambda x: torch.nonzero_static(x, size=5), torch.tensor([[1, 0], [1, 1]]), strides=True)
