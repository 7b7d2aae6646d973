"""Writes through one view, seen through all others: each program runs on the CPU and on the device."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import check
from torch import nn

PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {}


def program(fn: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    PROGRAMS[fn.__name__] = fn
    return fn


@program
def a_stack_of_views(x: torch.Tensor) -> Any:
    v = x.t()[1:5].unfold(0, 2, 2).transpose(0, 2)[1].diagonal()
    seen = x.view(-1)
    v.mul_(-1)
    v[1:] += 100
    return x, v, seen


@program
def memory_with_gaps(x: torch.Tensor) -> Any:
    v = x.as_strided((2, 3), (11, 3), 1)
    v.add_(0.5)
    v[:, 1].zero_()
    return x, v


@program
def overlapping_reads(x: torch.Tensor) -> Any:
    windows = x.view(-1).as_strided((22, 3), (1, 1))
    x[0].fill_(7)
    return windows.sum(1), windows.contiguous()


@program
def fills_of_shared_memory(x: torch.Tensor) -> Any:
    x[0, 0].expand(2).fill_(-1)
    x[1:2].expand(3, 6).zero_()
    x.view(-1).as_strided((3, 3), (1, 1), 15).fill_(5)
    return x


@program
def shifted_copies(x: torch.Tensor) -> Any:
    flat = x.view(-1)
    flat[3:9].copy_(flat[10:16])
    x[:2].copy_(x[2:])
    x[:, :3] = x[:, 3:]
    x[1:3].copy_(x[1:3].flip(0))
    return x


@program
def a_transpose_into_itself(x: torch.Tensor) -> Any:
    square = x.view(-1)[:16].view(4, 4)
    square.copy_(square.t().clone())
    square.t().add_(square.clone())
    square.add_(square)
    return x


@program
def out_into_views(x: torch.Tensor) -> Any:
    torch.add(x[0], x[1], out=x[2])
    torch.mul(x[:, 0], 2, out=x[:, 1])
    torch.sum(x[2:], 0, out=x[0])
    torch.maximum(x[:, :3], x[:, 3:], out=x[:, 3:])
    torch.neg(x[:, ::2], out=x[:, ::2])
    return x


@program
def other_dtypes(x: torch.Tensor) -> Any:
    bits = x.view(torch.int32)
    bits[1:3, ::2] ^= 1 << 31
    x.view(torch.uint8)[0, :4] = 0
    z = torch.view_as_complex(x.view(4, 3, 2))
    z.imag.mul_(2)
    z.real[0] = -1
    z[2] *= 1j
    return x, bits, z


@program
def pieces(x: torch.Tensor) -> Any:
    for i, piece in enumerate(x.split([1, 3])):
        piece.add_(i)
    for i, piece in enumerate(x.chunk(4, 1)):
        piece.mul_(i + 1)
    first, *_, last = x.unbind(0)
    first.swapaxes(0, 0).copy_(last)
    x.unsqueeze(1).squeeze(1).narrow(1, 2, 2).neg_()
    return x


@program
def many_at_once(x: torch.Tensor) -> Any:
    rows = list(x.unbind(0))
    torch._foreach_mul_(rows[:2], 3.0)
    torch._foreach_add_(rows, rows[::-1])
    torch._foreach_addcmul_(rows[:2], rows[2:], rows[2:], value=0.5)
    torch._foreach_copy_(rows[1:3], rows[:2])
    return x, torch._foreach_norm(rows)


@program
def the_same_tensor_twice(x: torch.Tensor) -> Any:
    torch._foreach_add_([x[0], x[0], x[1]], 1.0)
    x.mul_(x)
    x.addcmul_(x, x).sub_(x[:1].clone())
    return x


@program
def new_memory(x: torch.Tensor) -> Any:
    old = x.view(-1)
    alias = x.detach()
    x.data = torch.full_like(x, 3.0)
    x.add_(1)
    alias.sub_(1)
    y = torch.empty(0, device=x.device).set_(old.untyped_storage(), 4, (2, 5), (7, 1))
    y.zero_()
    old.resize_(12)
    old[0] = 5
    return x, alias, y, old


@program
def a_swap(x: torch.Tensor) -> Any:
    a, b = x[0], x[1]
    a[:], b[:] = b.clone(), a.clone()
    x[[0, 3]] = x[[3, 0]]
    x[x > 20] = x[x > 20] - 20
    return x


@program
def reads_in_the_middle(x: torch.Tensor) -> Any:
    total = 0.0
    for row in x:
        row -= row[0].item()
        total += float(row.sum())
        x[:, 1] += total
    return x, total


@program
def autograd_through_writes(x: torch.Tensor) -> Any:
    w = x.clone().requires_grad_()
    y = w * 2
    y[1].mul_(3)
    y.t()[0] = y[:, 1].clone() * w[0, 0]
    y[:2].narrow(1, 4, 2).copy_(w[:2, :2])
    view = y[2:]
    view.exp_()
    (g,) = torch.autograd.grad((y * torch.arange(24.0, device=x.device).view(4, 6)).sum(), w)
    return y, g


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, mode: str) -> None:
    check(PROGRAMS[name], torch.arange(24.0).view(4, 6) * 0.25, mode=mode)


def flat_parameters(device: str) -> Any:
    """As sharded training keeps them: one array, the parameters views of it, each updated in place."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    total = sum(p.numel() for p in model.parameters())
    flat, grads = torch.empty(total, device=device), torch.zeros(total, device=device)
    offset = 0
    model = model.to(device)
    for p in model.parameters():
        n = p.numel()
        flat[offset : offset + n].copy_(p.detach().view(-1))
        p.data = flat[offset : offset + n].view(p.shape)
        p.grad = grads[offset : offset + n].view(p.shape)
        offset += n
    x = torch.linspace(-1, 1, 24).view(6, 4).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(3):
        grads.zero_()
        model(x).square().mean().backward()
        grads.div_(grads.norm().clamp(min=1e-3))
        optimizer.step()
    assert all(p.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr() for p in model.parameters())
    assert all(p.grad.untyped_storage().data_ptr() == grads.untyped_storage().data_ptr() for p in model.parameters())
    return flat.cpu(), grads.cpu()


def test_one_array_of_parameters(mode: str) -> None:
    for got, want in zip(flat_parameters("tpu"), flat_parameters("cpu"), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def tied(device: str) -> Any:
    torch.manual_seed(0)
    model = nn.ModuleDict({"embed": nn.Embedding(7, 5), "head": nn.Linear(5, 7, bias=False)})
    model["head"].weight = model["embed"].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)  # made before the move
    model = model.to(device)
    assert model["head"].weight is model["embed"].weight
    tokens = torch.tensor([1, 2, 6, 1]).to(device)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model["head"](model["embed"](tokens)), tokens).backward()
        optimizer.step()
    other = copy.deepcopy(model)
    assert other["head"].weight is other["embed"].weight
    other["embed"].weight.data.zero_()
    assert other["head"].weight.abs().sum() == 0
    return model["embed"].weight.detach().cpu()


def test_tied_weights(mode: str) -> None:
    torch.testing.assert_close(tied("tpu"), tied("cpu"))
