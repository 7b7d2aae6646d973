"""Losses and their derivatives."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import MODES, check, check_grad
from torch.nn import functional as F

import torch_tpu

FLOATS = [torch.float32, torch.bfloat16, torch.float64]
REDUCTIONS = ["none", "mean", "sum"]


def make(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 6) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype).requires_grad_()


def share(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 7) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)).to(dtype).requires_grad_()


def classes(*shape: int, count: int, seed: int = 8) -> torch.Tensor:
    return torch.randint(0, count, shape, generator=torch.Generator().manual_seed(seed))


def signs(*shape: int) -> torch.Tensor:
    return classes(*shape, count=2) * 2.0 - 1


def name(dtype: torch.dtype) -> str:
    return str(dtype)[6:]


DISTANCES: dict[str, Callable[..., Any]] = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth_l1": lambda x, y, reduction: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.7),
    "huber": lambda x, y, reduction: F.huber_loss(x, y, reduction=reduction, delta=0.7),
    "soft_margin": lambda x, y, reduction: F.soft_margin_loss(x, y.detach().sign(), reduction=reduction),
    "kl_div": lambda x, y, reduction: F.kl_div(x, y.detach().softmax(-1), reduction=reduction),
    "poisson_nll": lambda x, y, reduction: F.poisson_nll_loss(x, y.detach().abs(), reduction=reduction),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=name)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(), (3, 4), (0, 3)], ids=str)
@pytest.mark.parametrize("op", DISTANCES)
def test_distances(op: str, shape: tuple[int, ...], reduction: str, dtype: torch.dtype) -> None:
    x, y = make(*shape, dtype=dtype), make(*shape, dtype=dtype, seed=9)
    check_grad(lambda x, y: DISTANCES[op](x, y, reduction=reduction), x, y)


def test_distances_of_edges() -> None:
    x = torch.tensor([0.0, 0.7, -0.7, 5, float("nan"), float("inf")]).requires_grad_()
    for op in ("smooth_l1", "huber", "mse", "l1"):
        check_grad(lambda x, op=op: DISTANCES[op](x, torch.zeros_like(x), reduction="none"), x)
    check_grad(lambda x: F.smooth_l1_loss(x, torch.zeros_like(x), beta=0.0), x[:4].detach().requires_grad_())
    check(lambda x: F.mse_loss(x.t(), x.t() * 2, reduction="none"), make(3, 4).detach())
    check(lambda x, y: torch.ops.aten.mse_loss(x, y, 0), make(3, 1).detach(), make(1, 4).detach())


def test_beta_compiles_nothing() -> None:
    x = make(4).detach().to("tpu")
    F.smooth_l1_loss(x, x, beta=0.3)
    compiles = torch.tpu.compile_stats()["compiles"]
    F.smooth_l1_loss(x, x, beta=0.4)
    assert torch.tpu.compile_stats()["compiles"] == compiles


@pytest.mark.parametrize("dtype", FLOATS, ids=name)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_binary_cross_entropy(weighted: bool, reduction: str, dtype: torch.dtype) -> None:
    x, y, w = share(3, 4, dtype=dtype), share(3, 4, dtype=dtype, seed=9).detach(), share(4, dtype=dtype).detach()
    weight = (lambda w: w) if weighted else (lambda w: None)
    check_grad(lambda x, y, w: F.binary_cross_entropy(x, y, weight(w), reduction=reduction), x, y, w)

    def with_logits(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        both = {"weight": weight(w), "pos_weight": weight(w + 1)}
        return F.binary_cross_entropy_with_logits(x, y, reduction=reduction, **both)

    check_grad(with_logits, make(3, 4, dtype=dtype), y, w)


def test_binary_cross_entropy_of_edges() -> None:
    x, y = torch.tensor([0.0, 1, 0, 1, 0.5]).requires_grad_(), torch.tensor([0.0, 1, 1, 0, 0.5])
    check_grad(lambda x, y: F.binary_cross_entropy(x, y, reduction="none"), x, y)
    logits = torch.tensor([100.0, -100, 1e4, -1e4, 0]).requires_grad_()
    check_grad(lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"), logits, y)


SCORES = [((5,), ()), ((3, 5), (3,)), ((2, 5, 3), (2, 3)), ((2, 5, 3, 2), (2, 3, 2)), ((0, 5), (0,))]


@pytest.mark.parametrize("dtype", FLOATS, ids=name)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("shape", "target"), SCORES)
def test_nll(shape: tuple[int, ...], target: tuple[int, ...], reduction: str, dtype: torch.dtype) -> None:
    t, w = classes(*target, count=5), share(5, dtype=dtype).detach()
    x = make(*shape, dtype=dtype)
    # Sums that cancel are off by what PyTorch rounds between.
    how = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    check_grad(lambda x, t: F.nll_loss(x, t, reduction=reduction), x, t, **how)
    check_grad(lambda x, t, w: F.nll_loss(x, t, w, ignore_index=2, reduction=reduction), x, t, w, **how)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy(reduction: str) -> None:
    t, w, x = classes(4, count=5), share(5).detach(), make(4, 5)
    check_grad(lambda x, t: F.cross_entropy(x, t, reduction=reduction), x, t)
    check_grad(lambda x, t, w: F.cross_entropy(x, t, w, label_smoothing=0.1, reduction=reduction), x, t, w)
    check_grad(lambda x, y: F.cross_entropy(x, y.softmax(1), reduction=reduction), x, make(4, 5, seed=10).detach())


def test_nll_of_ignored() -> None:
    t = torch.tensor([-100, 1, -100])
    x = torch.tensor([[float("nan"), 1], [2, 3], [float("inf"), 1]]).requires_grad_()
    check_grad(lambda x, t: F.nll_loss(x, t), x, t)
    check_grad(lambda x, t: F.nll_loss(x, t), x, torch.full((3,), -100))
    check(lambda x, t: F.nll_loss(x, t), x.detach(), torch.tensor([0, 1, 0], dtype=torch.uint8))


def test_nll_of_no_class() -> None:
    x, t = make(3, 5).detach(), torch.tensor([1, 4, -100])
    check(F.nll_loss, x, t, mode="debug")
    with (
        torch_tpu.eager_mode("debug"),
        pytest.raises(IndexError, match="index 5 is out of bounds for dimension with size 5"),
    ):
        F.nll_loss(x.to("tpu"), t.to("tpu") + 1)


REFUSED = [
    ("weight tensor", lambda x: F.nll_loss(x, x[:, 0].long(), x[0, :4])),
    ("multi-target", lambda x: F.nll_loss(x, x.long())),
    ("Long or Byte|LongTensor or ByteTensor", lambda x: F.nll_loss(x, x[:, 0])),
    ("target", lambda x: F.multi_margin_loss(x, x[0].long())),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals(case: int) -> None:
    match, call = REFUSED[case]
    for device in ("cpu", "tpu"):
        with pytest.raises((RuntimeError, ValueError), match=match):
            call(torch.ones(3, 5, device=device))


CTC = [
    ((6, 3, 5), (3, 3), [6, 5, 4], [3, 2, 0]),
    ((6, 3, 5), (6,), [6, 5, 3], [3, 1, 2]),
    ((4, 2, 5), (2, 3), [4, 2], [2, 3]),  # the second has no path
    ((4, 2, 5), (0,), [4, 0], [0, 0]),
    ((20, 2, 4), (2, 5), [20, 18], [5, 4]),
]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("case", range(len(CTC)))
def test_ctc(case: int, zero_infinity: bool, reduction: str) -> None:
    shape, target, inputs, lengths = CTC[case]

    def run(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        how = {"blank": 0, "reduction": reduction, "zero_infinity": zero_infinity}
        return F.ctc_loss(x.log_softmax(2), t, inputs, lengths, **how)

    # Targets that repeat, which need a blank between.
    t = (classes(*target, count=2) + 1) if target else classes(*target, count=2)
    check_grad(run, make(*shape), t, rtol=1e-4, atol=1e-5)


def test_ctc_lengths_compile_nothing() -> None:
    x, t = make(6, 2, 5).detach().log_softmax(2).to("tpu"), (classes(2, 3, count=4) + 1).to("tpu")
    F.ctc_loss(x, t, [6, 5], [3, 2])
    compiles = torch.tpu.compile_stats()["compiles"]
    F.ctc_loss(x, t, [5, 6], [1, 3])
    assert torch.tpu.compile_stats()["compiles"] == compiles


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=name)
def test_margins(reduction: str, dtype: torch.dtype) -> None:
    x, t, w = make(4, 5, dtype=dtype), classes(4, count=5), share(5, dtype=dtype).detach()
    margin = F.multi_margin_loss
    check_grad(lambda x, t: margin(x, t, reduction=reduction), x, t)
    check_grad(lambda x, t, w: margin(x, t, 2, 0.7, w, reduction=reduction), x, t, w)
    check_grad(lambda x, t: margin(x, t, reduction=reduction), make(5, dtype=dtype), t[0])
    labels = torch.tensor([[3, 0, -1, 1, 2], [0, 1, 2, 3, 4], [-1, 0, 1, 2, 3], [1, -1, -1, -1, -1]])
    check_grad(lambda x, t: F.multilabel_margin_loss(x, t, reduction=reduction), x, labels)
    check_grad(lambda x, t: F.multilabel_margin_loss(x, t, reduction=reduction), make(5, dtype=dtype), labels[0])


def test_margins_of_targets_that_do_not_fit() -> None:
    x, t = make(4, 5).to("tpu"), classes(3, 5, count=5).to("tpu")
    with pytest.raises(RuntimeError, match=r"inconsistent target size: \[3, 5\] for input of size: \[4, 5\]"):
        F.multilabel_margin_loss(x, t)


COMPOSITES: dict[str, Callable[..., Any]] = {
    "triplet_margin": F.triplet_margin_loss,
    "margin_ranking": lambda x, y, z, **how: F.margin_ranking_loss(x, y, z.detach().sign(), 0.2, **how),
    "hinge_embedding": lambda x, y, z, **how: F.hinge_embedding_loss(x, z.detach().sign(), **how),
    "cosine_embedding": lambda x, y, z, **how: F.cosine_embedding_loss(x, y, z.detach()[:, 0].sign(), 0.1, **how),
    "multilabel_soft_margin": lambda x, y, z, **how: F.multilabel_soft_margin_loss(x, z.detach().gt(0).float(), **how),
    "gaussian_nll": lambda x, y, z, **how: F.gaussian_nll_loss(x, y, z.detach().abs() + 0.1, **how),
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("op", COMPOSITES)
def test_composites(op: str, reduction: str) -> None:
    x, y, z = make(3, 4), make(3, 4, seed=11), make(3, 4, seed=12)
    check_grad(lambda x, y, z: COMPOSITES[op](x, y, z, reduction=reduction), x, y, z)


@pytest.mark.parametrize("mode", MODES)
def test_modes(mode: str) -> None:
    check_grad(lambda x, t: F.cross_entropy(x * 2, t), make(4, 5), classes(4, count=5), mode=mode)
    check_grad(lambda x: F.mse_loss(x, x.detach() * 2), make(4, 5), mode=mode)
