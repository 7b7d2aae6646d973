from typing import Any

import pytest
import torch
from oracle import check, check_error, check_grad, check_rounded, launches
from torch import Tensor
from torch.nn import functional as F

WIDE = [torch.float32, torch.float64]
NARROW = [torch.bfloat16, torch.float16]


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_()


CASES: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "layer": (lambda x, w, b: F.layer_norm(x, (6,), w, b), [(2, 4, 6), (6,), (6,)]),
    "layer_two_dims": (lambda x, w: F.layer_norm(x, (4, 6), w), [(2, 4, 6), (4, 6)]),
    "layer_plain": (lambda x: F.layer_norm(x, (6,), eps=0.1), [(2, 4, 6)]),
    "group": (lambda x, w, b: F.group_norm(x, 2, w, b), [(3, 4, 5, 6), (4,), (4,)]),
    "group_plain": (lambda x: F.group_norm(x, 4), [(3, 4, 5)]),
    "batch": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [(3, 4, 5, 6), (4,), (4,)]),
    "batch_2d": (lambda x, w: F.batch_norm(x, None, None, w, None, True), [(5, 4), (4,)]),
    "instance": (lambda x, w, b: F.instance_norm(x, None, None, w, b), [(3, 4, 5, 6), (4,), (4,)]),
    "rms": (lambda x, w: F.rms_norm(x, (6,), w), [(2, 4, 6), (6,)]),
    "rms_eps": (lambda x: F.rms_norm(x, (4, 6), eps=0.1), [(2, 4, 6)]),
    "weight_first": (lambda v, g: torch._weight_norm(v, g, 0), [(3, 4, 5), (3, 1, 1)]),
    "weight_last": (lambda v, g: torch._weight_norm(v, g, 2), [(3, 4, 5), (1, 1, 5)]),
    "weight_middle": (lambda v, g: torch._weight_norm(v, g, 1), [(3, 4, 5), (1, 4, 1)]),
    "local_response": (lambda x: F.local_response_norm(x, 3), [(2, 4, 5, 5)]),
    "cosine": (lambda x, y: F.cosine_similarity(x, y), [(2, 4, 5), (2, 4, 5)]),
    "normalize": (lambda x: F.normalize(x, dim=1), [(2, 4, 5)]),
}


@pytest.mark.parametrize("dtype", WIDE, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_norm(name: str, dtype: torch.dtype) -> None:
    fn, shapes = CASES[name]
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-7, "atol": 1e-9}
    check_grad(fn, *(leaf(*s, dtype=dtype) for s in shapes), **tolerance)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", ["layer", "group", "batch", "rms"])
def test_narrow_floats_round_once(name: str, dtype: torch.dtype) -> None:
    fn, shapes = CASES[name]
    check_rounded(fn, *(leaf(*s, dtype=dtype) for s in shapes), ulps=1.01)


def test_group_norm_keeps_formats_and_refuses() -> None:
    x = torch.randn(2, 4, 3, 3).to(memory_format=torch.channels_last)
    check(lambda x: F.group_norm(x, 2), x, strides=True, rtol=1e-4, atol=1e-5)
    x = x.to("tpu")
    with pytest.raises(RuntimeError, match=r"divisible by num_groups, but got input of shape \[2, 4, 3, 3\]"):
        torch.native_group_norm(x, None, None, 2, 4, 9, 3, 1e-5)


def test_rms_norm_is_one_operator() -> None:
    x, w = torch.randn(3, 6, device="tpu", requires_grad=True), torch.ones(6, device="tpu", requires_grad=True)
    with launches() as count:
        y = F.rms_norm(x, (6,), w)
        assert count() == 1
        torch.autograd.grad(y, (x, w), torch.ones_like(y))
        assert count() == 3  # the ones too
    check_error(lambda x: F.rms_norm(x, (4,)), torch.randn(2, 3))
    check_error(lambda x, w: F.rms_norm(x, (3,), w), torch.randn(2, 3), torch.randn(4))
    # Not of one dtype: PyTorch makes it of parts.
    check(lambda x, w: F.rms_norm(x, (6,), w), torch.randn(3, 6).bfloat16(), torch.ones(6), rtol=1e-2, atol=1e-2)


def test_layer_norm_refuses() -> None:
    check_error(lambda x: F.layer_norm(x, (4,)), torch.randn(2, 3))
    check_error(lambda x, w: F.layer_norm(x, (3,), w), torch.randn(2, 3), torch.randn(4))


@pytest.mark.parametrize("mode", ["debug", "defer"])
@pytest.mark.parametrize("name", ["layer", "batch"])
def test_modes(name: str, mode: str) -> None:
    fn, shapes = CASES[name]
    check_grad(fn, *(leaf(*s) for s in shapes), mode=mode, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["strict", "defer"])
@pytest.mark.parametrize("training", [True, False])
def test_running_statistics(training: bool, mode: str) -> None:
    def run(x: Tensor, w: Tensor, b: Tensor, mean: Tensor, var: Tensor) -> Any:
        y = F.batch_norm(x, mean, var, w, b, training, momentum=0.3)
        return y, mean + 0, var + 0

    inputs = leaf(3, 4, 5, 6), leaf(4), leaf(4), torch.randn(4), torch.rand(4)
    check_grad(run, *inputs, mode=mode, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_modules_keep_their_statistics(training: bool) -> None:
    def run(x: Tensor) -> Any:
        torch.manual_seed(0)
        m = torch.nn.BatchNorm2d(3).to(x.device).train(training)
        return m(x), m(x * 2), m.running_mean, m.running_var, m.num_batches_tracked

    check(run, torch.randn(4, 3, 5, 5), rtol=1e-4, atol=1e-5)


def test_statistics_of_wider_dtype() -> None:
    x, stats = torch.randn(4, 3, 5).bfloat16(), torch.rand(3) + 0.5
    check(lambda x, m, v: (F.batch_norm(x, m, v, training=True), m, v), x, stats, stats.clone(), rtol=2e-2, atol=2e-2)


def test_variants_with_statistics_in_their_schema() -> None:
    x, w, b = torch.randn(4, 3, 5), torch.randn(3), torch.randn(3)
    mean, var = torch.randn(3), torch.rand(3) + 0.5
    a = torch.ops.aten

    def legit(x: Tensor, w: Tensor, b: Tensor, m: Tensor, v: Tensor) -> Any:
        return a._native_batch_norm_legit(x, w, b, m, v, True, 0.1, 1e-5), m, v

    def update(x: Tensor, w: Tensor, b: Tensor, m: Tensor, v: Tensor) -> Any:
        return a._batch_norm_with_update(x, w, b, m, v, 0.1, 1e-5)[:3], m, v

    def out(x: Tensor, w: Tensor, b: Tensor, m: Tensor, v: Tensor) -> Any:
        outs = [torch.empty(s, device=x.device) for s in ((4, 3, 5), (3,), (3,))]
        a._native_batch_norm_legit.out(
            x, w, b, m, v, True, 0.1, 1e-5, out=outs[0], save_mean=outs[1], save_invstd=outs[2]
        )
        return outs, m, v

    for fn in (legit, update, out):
        check(fn, x, w, b, mean, var, rtol=1e-4, atol=1e-5)


def test_channels_last_is_kept() -> None:
    x = torch.randn(2, 4, 5, 6).to(memory_format=torch.channels_last)
    check(lambda x: F.batch_norm(x, None, None, training=True), x, strides=True, rtol=1e-4, atol=1e-5)
    check(lambda x: F.group_norm(x, 2), x, strides=True, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [1, 2, 3, float("inf")])
@pytest.mark.parametrize("dim", [0, -1])
def test_renorm(p: float, dim: int) -> None:
    check(lambda x: torch.renorm(x, p, dim, 1.5), torch.randn(3, 4, 5))
    check(lambda x: x.renorm_(p, dim, 1.5), torch.randn(3, 4, 5))


def test_empty() -> None:
    check_grad(lambda x, w, b: F.layer_norm(x, (6,), w, b), leaf(0, 6), leaf(6), leaf(6))
    check_grad(lambda x, w: F.batch_norm(x, None, None, w, None, True), leaf(0, 3, 4), leaf(3))


def test_batch_norm_saves_nothing_in_evaluation() -> None:
    x, w, mean, variance = torch.randn(4, 3, 5), torch.randn(3), torch.randn(3), torch.rand(3) + 0.5
    aten = torch.ops.aten

    def out(x: Tensor, w: Tensor, m: Tensor, v: Tensor) -> Any:
        targets = [x.new_empty(0) for _ in range(3)]
        names = dict(zip(("out", "save_mean", "save_invstd"), targets, strict=True))
        aten._native_batch_norm_legit.out(x, w, w, m, v, False, 0.1, 1e-5, **names)
        return targets

    for fn in (
        lambda x, w, m, v: aten.native_batch_norm(x, w, w, m, v, False, 0.1, 1e-5),
        lambda x, w, m, v: aten._native_batch_norm_legit(x, w, w, m, v, False, 0.1, 1e-5),
        lambda x, w, m, v: aten._native_batch_norm_legit_functional(x, w, w, m, v, False, 0.1, 1e-5),
        lambda x, w, m, v: aten._native_batch_norm_legit_no_training(x, w, w, m, v, 0.1, 1e-5),
        lambda x, w, m, v: aten._batch_norm_no_update(x, w, w, m, v, 0.1, 1e-5),
        out,
    ):
        check(fn, x, w, mean, variance, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="must be defined in evaluation mode"):
        aten.native_batch_norm(x.to("tpu"), None, None, None, None, False, 0.1, 1e-5)


def test_batch_norm_out_updates_what_runs() -> None:
    def run(x: Tensor, m: Tensor, v: Tensor) -> Any:
        targets = [x.new_empty(0) for _ in range(3)]
        names = dict(zip(("out", "save_mean", "save_invstd"), targets, strict=True))
        torch.ops.aten._native_batch_norm_legit.out(x, None, None, m, v, True, 0.1, 1e-5, **names)
        return (*targets, m, v)

    check(run, torch.randn(4, 3, 5), torch.randn(3), torch.rand(3) + 0.5, rtol=1e-4, atol=1e-5)
