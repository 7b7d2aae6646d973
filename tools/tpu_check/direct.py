"""Calls of rows that PyTorch's database of operators does not reach."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

aten = torch.ops.aten


def calls(dtype: torch.dtype) -> Iterator[Callable[[], Any]]:
    """Each returns what it made; some are refused in some dtypes."""
    yield from _overloads(dtype)
    if dtype.is_floating_point:
        yield from _normalisations(dtype)
        yield from _training(dtype)


def _overloads(dtype: torch.dtype) -> Iterator[Callable[[], Any]]:
    def make(*dims: int) -> torch.Tensor:
        return torch.ones(*dims, device="tpu").to(dtype)

    def wide(*dims: int) -> torch.Tensor:
        return torch.ones(*dims, device="tpu", dtype=torch.float32)

    x, cube, line = make(4, 4), make(2, 4, 4), make(4)
    index = torch.zeros(4, 4, device="tpu", dtype=torch.int64)
    for op in (aten.__lshift__, aten.__rshift__, aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor):
        yield partial(op.Scalar, x, 1)
        yield partial(op.Tensor, x, x)
    for op in (aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor, aten.bitwise_left_shift, aten.bitwise_right_shift):
        yield partial(op.Scalar_Tensor, 1, x)
    for op in (aten.bitwise_left_shift, aten.bitwise_right_shift):
        yield partial(op.Tensor_Scalar, x, 1)
        yield partial(op.Tensor, x, x)
    for op in (aten.gcd, aten.lcm, aten.remainder.Tensor):
        yield partial(op, x, x)
    yield partial(aten.remainder.Scalar_Tensor, 3, x)
    yield partial(aten.floor_divide.Scalar, x, 3)
    yield partial(aten.fmod.Scalar, x, 3)
    yield partial(aten.div.Scalar_mode, x, 3, rounding_mode="floor")
    yield partial(aten.clamp_max, x, 3)
    yield partial(aten.fill.Tensor, x, x[0, 0])
    yield partial(aten.mm.dtype, x, x, torch.float32)
    yield partial(aten.bmm.dtype, cube, cube, torch.float32)
    yield partial(aten.addmm.dtype, wide(4, 4), x, x, torch.float32)
    yield partial(aten.baddbmm.dtype, wide(2, 4, 4), cube, cube, torch.float32)
    yield partial(aten._linalg_eigvals, wide(4, 4))
    yield partial(aten._addmm_activation, line, x, x, use_gelu=True)
    yield partial(aten.norm.ScalarOpt_dtype, x, 2, dtype=torch.float32)
    yield partial(aten.norm.ScalarOpt_dim_dtype, x, 2, [0], False, dtype=torch.float32)
    yield partial(aten.bucketize.Scalar, 3, line)
    yield partial(aten.isin.Scalar_Tensor, 3, line)
    yield partial(aten.isin.Tensor_Scalar, line, 3)
    yield partial(aten.scatter.reduce, x, 0, index, x, reduce="add")
    yield partial(aten.scatter.value_reduce, x, 0, index, 2, reduce="multiply")
    yield partial(aten.embedding_renorm, x, index[0], 0.5, 2.0)
    for pads in (aten.reflection_pad3d, aten.replication_pad3d):
        yield partial(pads, make(1, 2, 3, 3, 3), [1] * 6)
    for backward in (aten.reflection_pad3d_backward, aten.replication_pad3d_backward):
        yield partial(backward, make(1, 2, 5, 5, 5), make(1, 2, 3, 3, 3), [1] * 6)
    for op in (aten.poisson, aten._standard_gamma, aten._sample_dirichlet, aten.bernoulli.Tensor):
        yield partial(op, x) if op is not aten.bernoulli.Tensor else partial(op, x, x)
    yield partial(aten.binomial, x, x)
    yield partial(aten.normal.float_Tensor, 0.0, x)
    yield partial(aten.random, x)
    yield partial(aten.random.to, x, 5)
    yield partial(aten._fused_dropout, x, 0.5)
    yield partial(aten._masked_scale, x, x.to(torch.uint8), 2.0)
    yield partial(aten._amp_update_scale, wide(1), index[0, :1].int(), wide(1), 2.0, 0.5, 10)
    yield partial(aten._amp_foreach_non_finite_check_and_unscale, [x], wide(1), wide(1))
    yield partial(aten._upsample_bicubic2d_aa, make(1, 2, 8, 8), [4, 4], False)
    yield partial(aten._upsample_bicubic2d_aa_backward, make(1, 2, 4, 4), [4, 4], [1, 2, 8, 8], False)
    yield partial(torch.range, 0, 6, 2, dtype=dtype, device="tpu")
    for make_indices in (torch.tril_indices, torch.triu_indices):
        yield partial(make_indices, 4, 5, device="tpu")
    yield partial(torch.randperm, 6, device="tpu")


def _normalisations(dtype: torch.dtype) -> Iterator[Callable[[], Any]]:
    x, line = torch.ones(4, 4, device="tpu", dtype=dtype), torch.ones(4, device="tpu", dtype=dtype)
    index, scale = torch.zeros(4, 4, device="tpu", dtype=torch.int64), torch.ones(4, 1, device="tpu")
    yield partial(aten._batch_norm_no_update, x, line, line, line, line, 0.1, 1e-5)
    yield partial(aten._native_batch_norm_legit_no_training, x, line, line, line, line, 0.1, 1e-5)
    yield partial(aten._fused_rms_norm, x, [4], line, 1e-5)
    yield partial(aten._fused_rms_norm_backward, x, x, [4], scale, line, [True, True])
    for mode in ("sum", "mean", "max"):
        bag = partial(nn.functional.embedding_bag, index, mode=mode)
        yield partial(bag, x)
        yield partial(_derived, bag, x)
    yield partial(_bag_backward, x, index.flatten(), index[:, 0])


def _bag_backward(weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> Any:
    out, bag, sizes, most = aten._embedding_bag(weight, indices, offsets)
    return aten._embedding_bag_dense_backward(out, indices, bag, sizes, most, weight.size(0), False, 0, None)


def _derived(fn: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Any:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(fn(x).sum(), x)


def _training(dtype: torch.dtype) -> Iterator[Callable[[], Any]]:
    """Optimizers, recurrent layers, normalisations."""

    def step(make: Callable[..., torch.optim.Optimizer], tensor_lr: bool = False, **options: Any) -> Any:
        parameters = [torch.ones(8, 4, dtype=dtype, device="tpu", requires_grad=True) for _ in range(2)]
        lr = torch.tensor(0.1, device="tpu") if tensor_lr else 0.1
        optimizer = make(parameters, lr=lr, **options)
        for _ in range(2):
            for p in parameters:
                p.grad = torch.ones_like(p)
            optimizer.step()
        return parameters, optimizer

    def layer(make: Callable[..., nn.Module], *shape: int) -> Any:
        model = make().to("tpu", dtype)
        x = torch.ones(*shape, dtype=dtype, device="tpu", requires_grad=True)
        out = model(x)
        (out[0] if isinstance(out, tuple) else out).float().sum().backward()
        return model, out, x

    for name in ("SGD", "Adam", "AdamW", "Adagrad"):
        for options in ({}, {"fused": True}, {"fused": True, "tensor_lr": True}):
            yield partial(step, getattr(torch.optim, name), **options)
    yield partial(step, torch.optim.SGD, momentum=0.9, fused=True)
    yield partial(step, torch.optim.Adam, amsgrad=True, fused=True)
    for name in ("LSTM", "GRU", "RNN"):
        yield partial(layer, partial(getattr(nn, name), 4, 8), 3, 2, 4)
    for name in ("LSTMCell", "GRUCell"):
        yield partial(layer, partial(getattr(nn, name), 4, 8), 2, 4)
    yield partial(layer, partial(nn.RMSNorm, 4), 2, 4)
    yield partial(layer, lambda: nn.utils.weight_norm(nn.Linear(4, 4)), 2, 4)
