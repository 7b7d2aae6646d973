from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from oracle import check, check_error, check_grad, check_rounded
from torch.nn import functional as F

Fn = Callable[..., torch.Tensor]
CASES: dict[str, tuple[Fn, list[tuple[int, ...]]]] = {
    "1d": (partial(F.conv1d, stride=2, padding=1), [(2, 3, 9), (4, 3, 3), (4,)]),
    "2d": (partial(F.conv2d, padding=1), [(2, 3, 9, 8), (4, 3, 3, 3), (4,)]),
    "2d_uneven": (
        partial(F.conv2d, stride=(2, 3), padding=(1, 2), dilation=(1, 2)),
        [(2, 3, 9, 12), (4, 3, 3, 2), (4,)],
    ),
    "2d_padded_more_than_the_kernel": (partial(F.conv2d, padding=3), [(2, 3, 9, 12), (4, 3, 3, 2)]),
    "2d_groups": (partial(F.conv2d, stride=2, padding=1, groups=2), [(2, 4, 9, 8), (6, 2, 3, 3), (6,)]),
    "2d_depthwise": (partial(F.conv2d, padding=1, groups=4), [(2, 4, 9, 8), (8, 1, 3, 3), (8,)]),
    "2d_same": (partial(F.conv2d, padding="same"), [(2, 3, 9, 8), (4, 3, 5, 3)]),
    "2d_no_batch": (F.conv2d, [(3, 9, 8), (4, 3, 3, 3), (4,)]),
    "3d": (partial(F.conv3d, stride=2, padding=1), [(2, 3, 5, 6, 7), (4, 3, 3, 3, 3), (4,)]),
    "transposed_1d": (
        partial(F.conv_transpose1d, stride=2, padding=1, output_padding=1),
        [(2, 3, 9), (3, 4, 3), (4,)],
    ),
    "transposed_2d": (
        partial(F.conv_transpose2d, stride=2, padding=1, output_padding=1, dilation=2, groups=2),
        [(2, 4, 5, 6), (4, 3, 3, 3), (6,)],
    ),
    "transposed_3d": (partial(F.conv_transpose3d, stride=2, padding=2), [(2, 3, 3, 4, 5), (3, 4, 2, 3, 3), (4,)]),
}


def tensors(shapes: list[tuple[int, ...]], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [torch.randn(s, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_convolution(name: str, dtype: torch.dtype) -> None:
    fn, shapes = CASES[name]
    check_grad(fn, *tensors(shapes, dtype), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["2d", "2d_depthwise", "transposed_2d"])
def test_narrow_floats_round_once(name: str, dtype: torch.dtype) -> None:
    fn, shapes = CASES[name]
    check_rounded(fn, *tensors(shapes, dtype))


@pytest.mark.parametrize("mode", ["debug", "defer"])
def test_modes(mode: str) -> None:
    fn, shapes = CASES["2d"]
    check_grad(fn, *tensors(shapes), mode=mode, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("which", ["input", "weight", "both"])
def test_channels_last_is_kept(which: str) -> None:
    def run(x: torch.Tensor, w: torch.Tensor) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = F.conv2d(x, w)
        return y, torch.autograd.grad(y.square().sum(), (x, w))

    x, w = torch.randn(2, 3, 9, 8), torch.randn(4, 3, 3, 3)
    x = x if which == "weight" else x.to(memory_format=torch.channels_last)
    w = w if which == "input" else w.to(memory_format=torch.channels_last)
    check(run, x, w, strides=True, rtol=1e-4, atol=1e-3)


def test_empty_batch() -> None:
    check_grad(F.conv2d, *tensors([(0, 3, 9, 8), (4, 3, 3, 3), (4,)]))


def test_only_what_is_asked_for() -> None:
    x, w = torch.randn(2, 3, 9, 8), torch.randn(4, 3, 3, 3)
    check_grad(F.conv2d, x, w.requires_grad_(), rtol=1e-5, atol=1e-4)
    check_grad(F.conv2d, x.requires_grad_(), w.detach(), rtol=1e-5, atol=1e-4)


def test_second_derivative() -> None:
    def run(x: torch.Tensor, w: torch.Tensor) -> Any:
        (g,) = torch.autograd.grad(F.conv2d(x, w).pow(3).sum(), x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), (x, w))

    check(run, *tensors([(1, 2, 5, 5), (3, 2, 3, 3)], torch.float64))


@pytest.mark.parametrize(
    ("x", "w", "how"),
    [
        ((1, 2, 5, 5), (4, 3, 3, 3), {}),
        ((1, 2, 2, 2), (4, 2, 3, 3), {}),
        ((1, 3, 5, 5), (4, 1, 3, 3), {"groups": 3}),
        ((1, 2, 5, 5), (4, 2, 3, 3), {"stride": 0}),
        ((1, 2, 5, 5), (4, 2, 3, 3), {"padding": -1}),
        ((1, 2, 5, 5), (4, 2, 3, 3), {"bias": torch.zeros(3)}),
        ((2, 5), (4, 2, 3, 3), {}),
    ],
    ids=str,
)
def test_shapes_that_do_not_fit(x: tuple[int, ...], w: tuple[int, ...], how: dict[str, Any]) -> None:
    check_error(lambda x, w, how: F.conv2d(x, w, **how), torch.randn(x), torch.randn(w), how)


def test_transposed_shapes_that_do_not_fit() -> None:
    check_error(F.conv_transpose2d, torch.randn(1, 2, 5, 5), torch.randn(3, 4, 3, 3))


def test_transposed_gradient_with_unused_input() -> None:
    """Output padding reaches past the stride: some of the input of the ordinary convolution is not looked at."""
    x, w = (torch.randn(*s, dtype=torch.float64).requires_grad_() for s in ((2, 2, 4, 4), (2, 2, 4, 5)))
    how = {"stride": (3, 2), "padding": (1, 2), "output_padding": (2, 3), "groups": 2, "dilation": (4, 4)}
    check_grad(lambda x, w: torch.nn.functional.conv_transpose2d(x, w, **how), x, w)
