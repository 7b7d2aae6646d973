"""torch._foreach_*: one call of the engine, and what CPU gives."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map_only

from tests.oracle import check, check_error, check_grad, launches, place

UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round "
    "rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
BINARY = "add sub mul div maximum minimum clamp_min clamp_max pow".split()


def tensors(dtype: torch.dtype = torch.float32, shift: float = 0.5) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    made = [torch.rand(shape, generator=generator) * 2 + shift for shape in ((3, 4), (5,), (2, 3, 2), (), (0, 2))]
    made[2] = made[2].transpose(0, 2)
    return [t.to(dtype) for t in made]


def one_call(fn: Callable[..., Any], *inputs: Any, **how: Any) -> None:
    """As ``check``, and the device sees one call."""
    check(fn, *inputs, **how)
    on_device = place(inputs, "tpu")
    before = torch.tpu.compile_stats()["ops_recorded"]
    with launches() as count:
        fn(*on_device)
        assert count() <= 1
    assert torch.tpu.compile_stats()["ops_recorded"] == before + 1


def function(name: str) -> Callable[..., Any]:
    return getattr(torch, f"_foreach_{name}")


def in_place(name: str) -> Callable[..., Any]:
    def run(self: list[torch.Tensor], *rest: Any) -> list[torch.Tensor]:
        function(name + "_")(self, *rest)
        return self

    return run


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    one_call(function(name), tensors(), strides=True)
    one_call(in_place(name), tensors(), strides=True)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("kind", ["List", "Scalar", "ScalarList"])
def test_binary(name: str, kind: str) -> None:
    other: Any = {"List": tensors(shift=0.3), "Scalar": 2.5, "ScalarList": [1.5, 2, 0.5, 1.0, 3]}[kind]
    one_call(function(name), tensors(), other, strides=True)
    one_call(in_place(name), tensors(), other, strides=True)


@pytest.mark.parametrize("name", ["add", "mul", "div"])
def test_with_tensor(name: str) -> None:
    one_call(function(name), tensors(), torch.tensor(2.5))
    one_call(in_place(name), tensors(), torch.tensor(2.5))


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
@pytest.mark.parametrize("value", [(), (0.3,), ([0.1, 0.2, 0.3, 1.0, 0.0],)], ids=["none", "Scalar", "ScalarList"])
def test_pointwise(name: str, value: tuple[Any, ...]) -> None:
    inputs = (tensors(), tensors(shift=1.0), tensors(shift=2.0), *value)
    one_call(function(name), *inputs)
    one_call(in_place(name), *inputs)


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_numbers_in_a_tensor(name: str) -> None:
    def run(*lists: list[torch.Tensor]) -> Any:
        scalars = torch.tensor([0.1, 0.2, 0.3, 1.0, 0.5])
        function(name + "_")(*lists, scalars)
        return lists[0], function(name)(*lists, scalars)

    check(run, tensors(), tensors(), tensors())


def test_lerp() -> None:
    a, b = tensors(), tensors(shift=2.0)
    for weight in (0.3, [0.1, 0.9, 0.5, 0.6, 0.2], [t / 4 for t in tensors()]):
        one_call(function("lerp"), a, b, weight)
        one_call(in_place("lerp"), a, b, weight)


def test_others() -> None:
    a, b = tensors()[:4], tensors(shift=2.0)[:4]
    one_call(lambda e: torch._foreach_pow(2.0, e), a)
    one_call(lambda x, y: torch._foreach_add(x, y, alpha=0.3), a, b)
    one_call(in_place("copy"), a, [t.half() for t in b])
    one_call(in_place("zero"), a)
    one_call(torch._foreach_max, a)
    for order in (0, 1, 2, 3.0, float("inf")):
        one_call(lambda x, o=order: torch._foreach_norm(x, o), a)
    one_call(lambda x: torch._foreach_norm(x, 2, dtype=torch.float64), a)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.uint8])
def test_dtypes(dtype: torch.dtype) -> None:
    a, b = tensors(dtype), tensors(dtype, shift=2.0)
    one_call(torch._foreach_add, a, b)
    one_call(torch._foreach_mul, a, 2.5)
    one_call(torch._foreach_add, a, [1, 2.5, True, 3, 4])
    one_call(torch._foreach_sqrt, a)
    one_call(torch._foreach_div, a, b)
    if dtype.is_floating_point:
        one_call(in_place("addcmul"), a, b, b, 0.3)


@pytest.mark.parametrize("how", ["debug", "defer"])
def test_modes(how: str) -> None:
    def run(a: list[torch.Tensor], b: list[torch.Tensor]) -> Any:
        torch._foreach_mul_(a, 0.9)
        torch._foreach_add_(a, b, alpha=0.1)
        torch._foreach_addcdiv_(a, b, torch._foreach_sqrt(b), [0.1, 0.2, 0.3, 0.4, 0.5])
        return a

    check(run, tensors(), tensors(), mode=how)


def test_elements_in_order() -> None:
    def run(a: torch.Tensor, b: torch.Tensor) -> Any:
        torch._foreach_add_([a, a, b[1:], b[:2]], [a, a, b[:1], b[3:5]])
        torch._foreach_mul_([b[0], b.view(5, 1)[2]], [2.0, 3.0])
        return a, b

    check(run, torch.arange(4.0), torch.arange(5.0))

    def views(a: torch.Tensor) -> Any:
        torch._foreach_mul_([a[0], a[1], a.t()[1]], [2.0, 3.0, 4.0])
        return a

    check(views, torch.arange(12.0).view(3, 4))


def test_errors() -> None:
    a = place(tensors(), "tpu")
    with pytest.raises(RuntimeError, match="same number of tensors"):
        torch._foreach_add(a, a[:2])
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch._foreach_sqrt([])
    with pytest.raises(RuntimeError):
        torch._foreach_add_([torch.ones(2, dtype=torch.int32, device="tpu")], 2.5)
    x = torch.arange(5.0, device="tpu")
    with pytest.raises(RuntimeError, match="single memory location"):
        torch._foreach_add_([x[1:]], [x[:-1]])


def test_numbers_come_at_run_time() -> None:
    a = place(tensors()[:4], "tpu")
    torch._foreach_mul_(a, [1.1, 1.2, 1.3, 1.4])
    torch._foreach_add_(a, 1.5)
    before = torch.tpu.compile_stats()["compiles"]
    torch._foreach_mul_(a, [2.1, 1.0, 0.0, -1.0])
    torch._foreach_add_(a, 2.5)
    assert torch.tpu.compile_stats()["compiles"] == before


def test_gradients() -> None:
    def run(*lists: list[torch.Tensor]) -> Any:
        total = sum(t.sum() for t in torch._foreach_mul(torch._foreach_exp(lists[0]), lists[1]))
        total.backward()
        return [t.grad for t in lists[0]]

    inputs = tree_map_only(torch.Tensor, lambda t: t.requires_grad_(), (tensors()[:2], tensors()[:2]))
    check(run, *inputs)


def test_many() -> None:
    a = [torch.full((2,), float(i)) for i in range(120)]
    check(in_place("add"), a, list(reversed(a)))

    def same(x: torch.Tensor) -> Any:
        torch._foreach_add_([x] * 40, 1.0)
        return x

    check(same, torch.zeros(3))


def test_a_long_list_of_few_kinds_compiles_each_kind_once() -> None:
    shapes = [(3, 7), (11,), (2, 2, 2)]
    a = [torch.rand(shapes[i % 3]).tpu() for i in range(60)]
    want = [t.cpu() + 2 for t in a]
    before = torch.tpu.compile_stats()["compiles"]
    torch._foreach_add_(a, 2.0)
    assert torch.tpu.compile_stats()["compiles"] - before <= 3
    for got, expected in zip(a, want, strict=True):
        torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=0)


def test_elements_that_are_alike_are_planned_once() -> None:
    def calls(n: int, size: int) -> int:
        """Functions of PyTorch's in Python that run in the first call."""
        a, b = ([torch.rand(size).tpu() for _ in range(n)] for _ in range(2))
        torch.tpu.synchronize()
        seen = [0]

        def count(frame: object, event: str, arg: object) -> None:
            seen[0] += event == "call"

        sys.setprofile(count)
        try:
            torch._foreach_lerp_(a, b, 0.3)
        finally:
            sys.setprofile(None)
        return seen[0]

    calls(1, 5)
    one = calls(1, 13)
    assert 0 < one == calls(64, 17)


def test_an_element_may_be_refused_for_its_number() -> None:
    a = [torch.tensor([1, 2]), torch.tensor([3, 4])]
    for fn in (torch._foreach_pow, torch._foreach_pow_):
        check_error(fn, a, [2, -1])
        check_error(fn, a, -1)


def test_each_part_of_a_long_list_reads_what_was_there_before() -> None:
    def run(a: list[torch.Tensor]) -> list[torch.Tensor]:
        torch._foreach_add_(a, a[1:] + a[:1])
        torch._foreach_mul_(a[::2] + a[:1], 3.0)
        return a

    check(run, [torch.full((3,), float(i)) for i in range(20)])


@pytest.mark.parametrize("op", ["_foreach_abs_", "_foreach_sin_", "_foreach_neg_"])
def test_gradients_of_views_that_are_written_in_a_list(op: str) -> None:
    def run(v: torch.Tensor) -> torch.Tensor:
        doubled, base = v + v, v * 3
        view = base.view(2, 3).t()
        getattr(torch, op)([doubled, view])
        return doubled.sum() + 2 * view.sum() + base[1]

    check_grad(run, torch.tensor([3.0, -2.0, -2.0, 0.5, -2.0, -1.0]).requires_grad_())


def test_writes_are_counted() -> None:
    def versions(device: str) -> list[int]:
        x, y = ([torch.ones(3, device=device) for _ in range(2)] for _ in range(2))
        torch._foreach_add_(x, 1.0)
        torch._foreach_copy_(x, y)
        torch.ops.aten._foreach_abs.out(x, out=y)
        return [t._version for t in (*x, *y)]

    assert versions("tpu") == versions("cpu") == [2, 2, 1, 1]
    saved = torch.ones(3).tpu().requires_grad_()
    weight = torch.ones(3).tpu()
    loss = (saved * weight).sum()
    torch._foreach_add_([weight], 1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
