"""What PyTorch refuses on other devices is refused here, with the same exception and its words."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from ledger import REFUSED_AS_ON_CPU
from oracle import check_error
from torch.nn import functional as F

X = torch.arange(12.0).view(3, 4)


def changed_before_backward(x: torch.Tensor) -> None:
    w = x.clone().requires_grad_()
    y = w.exp()
    y.add_(1)
    y.sum().backward()


def changed_through_a_view(x: torch.Tensor) -> None:
    w = x.clone().requires_grad_()
    y = (w * 1).detach().requires_grad_()
    z = (w * y).sum()
    y.data[0] = 0  # not counted
    with torch.no_grad():
        y[1] = 3
    z.backward()


def second_backward(x: torch.Tensor) -> None:
    y = x.clone().requires_grad_().exp().sum()
    y.backward()
    y.backward()


REFUSED: dict[str, Callable[[torch.Tensor], Any]] = {
    "in place on expanded memory": lambda x: x[:1].expand(3, 4).add_(1),
    "copy into expanded memory": lambda x: x[:1].expand(3, 4).copy_(x),
    "fill of expanded memory": lambda x: x[0, 0].expand(2).fill_(x[1, 1]),
    "partly overlapping operands": lambda x: x.view(-1)[1:].add_(x.view(-1)[:-1]),
    "partly overlapping out": lambda x: torch.exp(x.view(-1)[1:], out=x.view(-1)[:-1]),
    "a leaf that requires grad": lambda x: x.clone().requires_grad_().add_(1),
    "a view of such a leaf": lambda x: x.clone().requires_grad_()[0].mul_(2),
    "out= that requires grad": lambda x: torch.add(x, x, out=x.clone().requires_grad_()),
    "out= of operands that require grad": lambda x: torch.exp(x.clone().requires_grad_(), out=torch.empty_like(x)),
    "a changed saved tensor": changed_before_backward,
    "a changed saved tensor, through a view": changed_through_a_view,
    "a second backward": second_backward,
    "backward of many numbers": lambda x: x.clone().requires_grad_().exp().backward(),
    "out= of another dtype": lambda x: torch.add(x, x, out=torch.empty(3, 4, dtype=torch.int64, device=x.device)),
    "an in-place result of another dtype": lambda x: x.long().add_(x),
    "a comparison into floats in place": lambda x: x.long().div_(2),
    "shapes that do not broadcast": lambda x: x + x[:, :3],
    "an in-place operand that is larger": lambda x: x[0].clone().add_(x),
    "shapes of a product": lambda x: x @ x,
    "dtypes of a product": lambda x: x @ x.t().double(),
    "a dim out of range": lambda x: x.sum(2),
    "a dim twice": lambda x: x.sum((0, 0)),
    "a dim out of range, of a view": lambda x: x.select(2, 0),
    "an index out of range": lambda x: x[3],
    "too many indices": lambda x: x[0, 0, 0],
    "a size that does not divide": lambda x: x.view(5, -1),
    "a view across strides": lambda x: x.t().view(12),
    "a negative size": lambda x: x.new_empty((2, -1)),
    "the item of many": lambda x: x.item(),
    "the truth of many": lambda x: bool(x),
    "concatenated shapes": lambda x: torch.cat([x, x[:, :2]]),
    "no tensors": lambda x: torch.cat([]),
    "a greatest common divisor of floats": lambda x: x.gcd(x),
    "a mask of integers": lambda x: torch.bernoulli(x.long()),
    "a mask drawn by integers": lambda x: x.clone().bernoulli_(x.long()),
    "counts drawn by integers": lambda x: torch.poisson(x.long()),
    "a gamma distribution of integers": lambda x: torch._standard_gamma(x.long()),
    "a Dirichlet distribution of integers": lambda x: torch._sample_dirichlet(x.long()),
    "a normal distribution of integer deviation": lambda x: torch.normal(0.0, x.long()),
    "a normal distribution of integer mean": lambda x: torch.normal(x.long(), 1.0),
    "the maximum of nothing": lambda x: x[:0].max(),
    "an argmax of nothing": lambda x: x[:0].argmax(),
    "dtypes of a sum of products": lambda x: torch.addmm(x, x.double(), x.double()[:, :3]),
    "dtypes of a matrix and a vector": lambda x: x @ x[0].long(),
    "float indices": lambda x: x.index_select(0, torch.zeros(2, device=x.device)),
    "gather with another rank": lambda x: x.gather(1, torch.zeros(2, dtype=torch.long, device=x.device)),
    "float indices, advanced": lambda x: x[torch.zeros(2, device=x.device)],
    "a mask of another shape": lambda x: x[torch.ones(2, 4, dtype=torch.bool, device=x.device)],
    "float indices, filled": lambda x: x.index_fill(0, x[0], 1.0),
    "float indices, put": lambda x: x.put(x, x),
    "a shift of floats": lambda x: x << 1,
    "eigenvalues of half": lambda x: torch.linalg.eig(x[:, :3].half()),
    "a histogram of integers": lambda x: torch.histogram(x.long(), 3),
    "bitwise on floats": lambda x: x & x,
    "numpy of a device": lambda x: torch.ones(1).as_strided((1,), (1,)).requires_grad_().numpy(),
    "a convolution of other channels": lambda x: torch.conv2d(x.view(1, 1, 3, 4), x.new_ones(2, 3, 1, 1)),
    "an unknown reduction": lambda x: x.scatter_reduce(0, x.long() * 0, x, "sums"),
    "a kernel larger than its input": lambda x: torch.nn.functional.max_pool2d(x.view(1, 1, 3, 4), 5),
    "a class out of shape": lambda x: torch.nn.functional.nll_loss(
        x, torch.zeros(2, dtype=torch.long, device=x.device)
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_on_cpu(name: str) -> None:
    check_error(REFUSED[name], X)


# PyTorch's meta functions let these through, and its CPU kernels throw.
FOUND_BY_LOWERING: dict[str, Callable[[torch.Tensor], Any]] = {
    "a mask of probabilities of another shape": lambda x: x.bernoulli_(x.new_ones(3)),
    "counts and probabilities of other shapes": lambda x: torch.binomial(x, x.new_ones(3)),
    "norms of integers": lambda x: torch._foreach_norm([x.int()]),
    "values that do not fit their indices": lambda x: x.view(2, 2).index_put_((x.new_zeros(3).long(),), x),
    "keys of another width": lambda x: F.scaled_dot_product_attention(
        x.view(1, 1, 2, 2), x.new_ones(1, 1, 2, 3), x.view(1, 1, 2, 2)
    ),
    "an attention mask of another shape": lambda x: F.scaled_dot_product_attention(
        x.view(1, 1, 2, 2), x.view(1, 1, 2, 2), x.view(1, 1, 2, 2), x.new_zeros(2, 7)
    ),
}


@pytest.mark.parametrize("name", FOUND_BY_LOWERING)
def test_what_the_lowering_finds_is_refused_at_the_call(name: str, mode: str) -> None:
    x = torch.ones(4)
    with pytest.raises((RuntimeError, NotImplementedError)):
        FOUND_BY_LOWERING[name](x.clone())
    x = x.tpu()
    other = x + 1
    for _ in range(2):
        with pytest.raises((RuntimeError, NotImplementedError)):
            FOUND_BY_LOWERING[name](x.clone())
    assert other.tolist() == [2, 2, 2, 2] and x.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("name", REFUSED_AS_ON_CPU)
def test_what_is_not_implemented_is_not_on_the_cpu_either(name: str) -> None:
    for device in ("cpu", "tpu"):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            REFUSED[name](X.to(device))


def test_two_devices_are_both_named() -> None:
    x, y = torch.ones(3).tpu(), torch.ones(3)
    calls: list[Callable[[], Any]] = [
        lambda: x + y,
        lambda: y + x,
        lambda: x.add_(y),
        lambda: y.add_(x),
        lambda: torch.add(x, x, out=y),
        lambda: torch.cat([x, y]),
        lambda: torch.where(x > 0, x, y),
        lambda: torch.mm(x.view(1, 3), y.view(3, 1)),
        lambda: torch._foreach_add([x, x], [y, y]),
        lambda: torch.nn.functional.linear(y.view(1, 3), x.view(1, 3)),
        lambda: torch.nn.functional.layer_norm(x, (3,), y, y),
        lambda: torch.nn.functional.embedding(y.long(), x.view(3, 1)),
    ]
    for i, call in enumerate(calls):
        with pytest.raises(RuntimeError, match=r"(?s)tpu.*cpu|cpu.*tpu") as caught:
            call()
        assert "device" in str(caught.value), i


def test_the_device_stays_usable(mode: str) -> None:
    x = X.tpu()
    y = x + 1
    for refused in REFUSED.values():
        with pytest.raises((RuntimeError, IndexError, TypeError, ValueError)):
            refused(x.clone())
    assert (y * 2 - x).tolist() == (X + 2).tolist()
