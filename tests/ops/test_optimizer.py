"""torch.optim on the device gives what it gives on CPU, in every form: plain, foreach, fused, capturable."""

from typing import Any

import pytest
import torch
from torch import optim
from torch.testing import assert_close

import torch_tpu
from tests.oracle import check

STEPS = 5


def parameters(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Three, one of them transposed."""
    generator = torch.Generator().manual_seed(1)
    made = [torch.randn(*shape, generator=generator).to(dtype) for shape in ((3, 4), (5,), (4, 2))]
    made[2] = made[2].t()
    return made


def train(device: str, kind: type[optim.Optimizer], dtype: torch.dtype = torch.float32, **options: Any) -> list[Any]:
    ps = [p.to(device).requires_grad_() for p in parameters(dtype)]
    if kind is optim.Muon:
        ps = [p for p in ps if p.dim() == 2]
    if kind is optim.LBFGS:  # wants views of its gradients
        ps = [p for p in ps if p.is_contiguous()]
    if isinstance(options.get("lr"), torch.Tensor):
        options["lr"] = options["lr"].clone().to(device)
    optimizer = kind(ps, **options)
    targets = [torch.linspace(-1, 1, p.numel(), dtype=dtype).reshape(p.shape).to(device) for p in ps]

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = sum((((p - t) ** 2).sum() for p, t in zip(ps, targets, strict=True)), torch.zeros((), device=device))
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)
    return [p.detach().cpu() for p in ps]


def same(kind: type[optim.Optimizer], mode: str, cpu: dict[str, Any], tpu: dict[str, Any], **how: Any) -> None:
    want = train("cpu", kind, **cpu)
    before = torch.tpu.compile_stats()["cpu_fallbacks"]
    with torch_tpu.eager_mode(mode):
        got = train("tpu", kind, **tpu)
    assert torch.tpu.compile_stats()["cpu_fallbacks"] == before, torch_tpu._C.fallback_counts()
    assert_close(got, want, **({"rtol": 1e-5, "atol": 1e-5} | how))


ALL: list[tuple[type[optim.Optimizer], dict[str, Any]]] = [
    (optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.01}),
    (optim.AdamW, {"lr": 0.01, "maximize": True}),
    (optim.NAdam, {"lr": 0.01}),
    (optim.RAdam, {"lr": 0.01}),
    (optim.Adamax, {"lr": 0.01}),
    (optim.Adadelta, {"lr": 0.5}),
    (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.01}),
    (optim.ASGD, {"lr": 0.05}),
    (optim.RMSprop, {"lr": 0.01, "centered": True, "momentum": 0.9}),
    (optim.Rprop, {"lr": 0.01}),
]
names = [kind.__name__ for kind, _ in ALL]


@pytest.mark.parametrize("how", ["strict", "defer"])
@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize(("kind", "options"), ALL, ids=names)
def test_optimizer(kind: type[optim.Optimizer], options: dict[str, Any], foreach: bool, how: str) -> None:
    options = options | {"foreach": foreach}
    same(kind, how, options, options)


@pytest.mark.parametrize("how", ["strict", "defer"])
@pytest.mark.parametrize("kind", [optim.LBFGS, optim.Adafactor, optim.Muon], ids=lambda k: k.__name__)
def test_only_plain(kind: type[optim.Optimizer], how: str) -> None:
    options = {"lr": 0.01} if kind is not optim.LBFGS else {"lr": 0.1, "max_iter": 3}
    loose = {"rtol": 2e-2, "atol": 2e-3} if kind is optim.Muon else {}  # its matrix products are bfloat16
    same(kind, how, options, options, **loose)


FUSED: list[tuple[type[optim.Optimizer], dict[str, Any]]] = [
    (optim.SGD, {"lr": 0.05}),
    (optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (optim.SGD, {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    (optim.SGD, {"lr": torch.tensor(0.05), "momentum": 0.9}),
    (optim.Adam, {"lr": 0.01}),
    (optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.01, "maximize": True}),
    (optim.Adam, {"lr": torch.tensor(0.01), "betas": (0.8, 0.99)}),
    (optim.AdamW, {"lr": 0.01}),
    (optim.AdamW, {"lr": torch.tensor(0.01), "amsgrad": True, "weight_decay": 0.1}),
    (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.01, "weight_decay": 0.01}),
]


@pytest.mark.parametrize("how", ["strict", "defer"])
@pytest.mark.parametrize(("kind", "options"), FUSED, ids=str)
def test_fused(kind: type[optim.Optimizer], options: dict[str, Any], how: str) -> None:
    if kind is optim.Adagrad:
        # Its Python refuses devices other than CPU.
        pytest.skip("torch.optim.Adagrad(fused=True) is for CPU only")
    same(kind, how, options | {"foreach": False}, options | {"fused": True})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_fused_dtypes(dtype: torch.dtype) -> None:
    loose = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {"rtol": 1e-9, "atol": 1e-9}
    for kind in (optim.AdamW, optim.SGD):
        same(
            kind,
            "strict",
            {"lr": 0.01, "fused": True, "dtype": dtype},
            {"lr": 0.01, "fused": True, "dtype": dtype},
            **loose,
        )


@pytest.mark.parametrize("kind", [optim.Adam, optim.NAdam, optim.RMSprop, optim.Rprop, optim.ASGD])
@pytest.mark.parametrize("foreach", [False, True])
def test_capturable(kind: type[optim.Optimizer], foreach: bool) -> None:
    options = {"lr": 0.01, "foreach": foreach}
    same(kind, "strict", options, options | {"capturable": True}, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tensor_lr", [False, True])
def test_fused_adagrad(tensor_lr: bool) -> None:
    def run(p: torch.Tensor, g: torch.Tensor, s: torch.Tensor, t: torch.Tensor) -> Any:
        lr = torch.tensor(0.1, device=p.device) if tensor_lr else 0.1
        torch._fused_adagrad_([p], [g], [s], [t], lr=lr, lr_decay=0.01, weight_decay=0.1, eps=1e-10, maximize=False)
        return p, s

    check(run, torch.randn(3, 4), torch.randn(3, 4), torch.rand(3, 4), torch.tensor(3.0))


def test_one_call_and_no_new_program() -> None:
    ps = [p.to("tpu").requires_grad_() for p in parameters()]
    optimizer = optim.AdamW(ps, lr=0.1, fused=True)
    for p in ps:
        p.grad = torch.ones_like(p)
    optimizer.step()
    optimizer.step()
    before = torch.tpu.compile_stats()
    optimizer.param_groups[0].update(lr=0.2, weight_decay=0.3, eps=1e-6, betas=(0.5, 0.6))
    optimizer.step()
    after = torch.tpu.compile_stats()
    assert after["compiles"] == before["compiles"]
    assert after["executions"] - before["executions"] == 2  # the step counters, the parameters


@pytest.mark.parametrize("foreach", [None, False])
def test_clipping(foreach: bool | None) -> None:
    def norm(*grads: torch.Tensor) -> Any:
        ps = [torch.zeros_like(g).requires_grad_() for g in grads]
        for p, g in zip(ps, grads, strict=True):
            p.grad = g
        total = torch.nn.utils.clip_grad_norm_(ps, 0.5, foreach=foreach)
        return [total, *[p.grad for p in ps]]

    def value(*grads: torch.Tensor) -> Any:
        ps = [torch.zeros_like(g).requires_grad_() for g in grads]
        for p, g in zip(ps, grads, strict=True):
            p.grad = g
        torch.nn.utils.clip_grad_value_(ps, 0.5, foreach=foreach)
        return [p.grad for p in ps]

    check(norm, *parameters())
    check(value, *parameters())


@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_scaler(bad: bool, fused: bool) -> None:
    def run(device: str) -> Any:
        p = torch.ones(3, 2, device=device).requires_grad_()
        optimizer = optim.AdamW([p], lr=0.1, fused=fused)
        scaler = torch.amp.GradScaler(device, init_scale=8.0, growth_interval=2)
        for i in range(3):
            optimizer.zero_grad()
            scaler.scale((p * (float("inf") if bad and i == 1 else 2.0)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        return p.detach().cpu(), scaler.get_scale()

    before = torch.tpu.compile_stats()["cpu_fallbacks"]
    got = run("tpu")
    assert torch.tpu.compile_stats()["cpu_fallbacks"] == before, torch_tpu._C.fallback_counts()
    assert_close(got, run("cpu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_unscale(dtype: torch.dtype) -> None:
    def run(a: torch.Tensor, b: torch.Tensor, found: torch.Tensor, factor: torch.Tensor) -> Any:
        torch._amp_foreach_non_finite_check_and_unscale_([a, b], found, factor)
        return a, b, found

    a, b = torch.randn(3, 4).to(dtype), torch.randn(5).to(dtype)
    check(run, a, b, torch.zeros(1), torch.tensor(0.25))
    check(run, a, b * float("nan"), torch.zeros(1), torch.tensor(1.0))
