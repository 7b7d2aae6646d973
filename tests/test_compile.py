"""``torch.compile(backend="tpu")``: the same answers, and a graph is one program."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.utils.checkpoint
from test_models import MODELS
from torch import Tensor, nn
from torch.nn import functional as F


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def stats() -> dict[str, int]:
    torch.tpu.synchronize()
    return torch.tpu.compile_stats()


def both(f: Callable[..., Any], *inputs: Any) -> Any:
    """f compiled on the device, after the same was seen on the CPU."""
    here = [x.clone() if isinstance(x, Tensor) else x for x in inputs]
    there = [x.tpu() if isinstance(x, Tensor) else x for x in inputs]
    want, got = f(*here), torch.compile(f, backend="tpu")(*there)
    torch.testing.assert_close(got, want, check_device=False, rtol=1e-5, atol=1e-5)
    for mine, other in zip(there, here, strict=True):  # what was written
        torch.testing.assert_close(mine, other, check_device=False, rtol=1e-5, atol=1e-5)
    return got


def test_pytorch_finds_it() -> None:
    assert "tpu" in torch._dynamo.list_backends()


def test_a_graph_is_one_program_and_one_launch() -> None:
    @torch.compile(backend="tpu")
    def f(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = (x @ y).relu().sum(1)
        return z, z.softmax(0)

    x, y = torch.randn(4, 5).tpu(), torch.randn(5, 6).tpu()
    before = stats()
    f(x, y)
    first = stats()
    assert first["compiles"] - before["compiles"] == 1
    for _ in range(3):
        f(x + 1, y)
    x + 1
    added = stats()["executions"]
    f(x, y)
    after = stats()
    assert after["executions"] - added == 1
    assert after["compiles"] - first["compiles"] == 1  # x + 1


@pytest.mark.parametrize("name", MODELS)
def test_training(name: str, mode: str) -> None:
    make, data, labels, classes = MODELS[name]

    def train(device: str, compiled: bool) -> list[float]:
        torch.manual_seed(0)
        model = make().to(device)
        x, y = data().to(device), torch.randint(0, classes, labels).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        step = torch.compile(model, backend="tpu") if compiled else model
        losses = []
        for _ in range(4):
            loss = F.cross_entropy(step(x).flatten(0, -2), y.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    torch.testing.assert_close(train("tpu", True), train("cpu", False), rtol=1e-4, atol=1e-4)


def test_random_numbers_are_those_of_eager_code_and_new_at_each_call(mode: str) -> None:
    def f(x: Tensor) -> Tensor:
        return F.dropout(x, 0.5) + torch.rand_like(x)

    x = torch.ones(40).tpu()
    torch.manual_seed(3)
    want = [f(x) for _ in range(3)]
    torch.manual_seed(3)
    compiled = torch.compile(f, backend="tpu")
    got = [compiled(x) for _ in range(3)]
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)
    assert not torch.equal(got[0], got[1])


def test_writes_reach_the_inputs(mode: str) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        y[1:].mul_(2)
        x.t_()
        return x.sum() + y

    both(f, torch.arange(6.0).reshape(2, 3), torch.arange(3.0))


def test_inputs_of_any_geometry(mode: str) -> None:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        return x, x * 2, x[:, 1:], x.sum(0)

    x = torch.arange(24.0).reshape(4, 6)
    for view in (x, x.t(), x[1:, ::2], x.expand(2, 4, 6)[1], x[:0]):
        both(f, view)


def test_numbers_that_change_compile_nothing() -> None:
    f = torch.compile(lambda x, s: x * s + 1, backend="tpu", dynamic=True)
    x = torch.arange(4.0).tpu()
    assert f(x, 2.5).tolist() == [1, 3.5, 6, 8.5]
    before = stats()["compiles"]
    for s in (3.5, -1.25, 0.0, 1.0, 1e30):
        torch.testing.assert_close(f(x, s).cpu(), torch.arange(4.0) * s + 1)
    assert stats()["compiles"] == before


def test_a_size_that_changes(mode: str) -> None:
    def f(x: Tensor) -> Tensor:
        return x.cumsum(0)[-1] * x.shape[0] + torch.arange(x.shape[0], device=x.device)

    compiled = torch.compile(f, backend="tpu")
    for n in (3, 4, 5, 4, 9):
        x = torch.randn(n)
        torch.testing.assert_close(compiled(x.tpu()).cpu(), f(x))


def test_tensors_that_the_graph_holds(mode: str) -> None:
    table = torch.tensor([1.0, 2.0, 3.0])

    def f(x: Tensor) -> Tensor:
        return x * torch.tensor([1.0, 2.0, 3.0], device=x.device) + torch.tensor(0.5) + table.to(x.device)

    compiled = torch.compile(f, backend="tpu")
    for _ in range(2):
        x = torch.randn(3)
        torch.testing.assert_close(compiled(x.tpu()).cpu(), f(x))
    table.add_(1)
    torch.testing.assert_close(compiled(x.tpu()).cpu(), f(x))


def test_what_depends_on_data(mode: str) -> None:
    def f(x: Tensor) -> Tensor:
        y = x[x > 0]
        if y.sum() > 3:
            return y * 2
        return y - x.max().item()

    for values in ([1.0, -1.0, 4.0], [1.0, -1.0, 1.0], [-2.0, -1.0, -1.0]):
        both(f, torch.tensor(values))


def test_a_graph_that_cannot_be_replayed_is_run_each_time() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        compiled = torch.compile(lambda x: x.nonzero().sum() + x.sum(), backend="tpu", fullgraph=True)
        for values in ([1.0, 0.0, 4.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]):
            x = torch.tensor(values)
            assert compiled(x.tpu()).item() == (x.nonzero().sum() + x.sum()).item()


def test_custom_autograd_and_hooks() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return g * 2 + x * 0

    def f(x: Tensor) -> Tensor:
        y = x.clone().requires_grad_()
        Twice.apply(y).square().sum().backward()
        return y.grad  # type: ignore[return-value]

    both(f, torch.randn(4))


def test_autocast_and_no_grad(mode: str) -> None:
    linear = nn.Linear(6, 4).tpu()

    def f(x: Tensor) -> Tensor:
        with torch.autocast("tpu", torch.bfloat16):
            return linear(x)

    x = torch.randn(3, 6).tpu()
    got = torch.compile(f, backend="tpu")(x)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got, f(x))
    with torch.no_grad():
        assert not torch.compile(f, backend="tpu")(x).requires_grad


def test_results_have_the_strides_of_eager_code() -> None:
    conv = nn.Conv2d(3, 4, 3).tpu()

    def f(x: Tensor) -> tuple[Tensor, ...]:
        y = conv(x)
        return y, y.permute(0, 2, 3, 1).reshape(-1, 4), y.transpose(1, 3) + 1

    for x in (torch.randn(2, 3, 5, 5), torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last)):
        got, want = torch.compile(f, backend="tpu")(x.tpu()), f(x.tpu())
        for a, b in zip(got, want, strict=True):
            assert a.stride() == b.stride()
            torch.testing.assert_close(a, b)


def test_results_that_share_memory_share_it(mode: str) -> None:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return y, y[1], y.t().unsqueeze(0), y.view(torch.int32), x[:1], x.expand(2, *x.shape)

    for x in (torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(3, 2).t()):
        here, there = x.clone(), x.tpu()
        results = [(f(here), here), (torch.compile(f, backend="tpu")(there), there)]
        for (y, *_), given in results:
            y.add_(1)
            given.mul_(3)
        torch.testing.assert_close(results[1], results[0], check_device=False, rtol=0, atol=0)


def test_checkpoints_with_dropout() -> None:
    layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2)).tpu()

    def f(x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(layers, x, use_reentrant=False).sum()

    gradients = []
    for step in (torch.compile(f, backend="tpu"), f):
        torch.manual_seed(5)
        x = torch.ones(2, 4).tpu().requires_grad_()
        step(x).backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


def test_higher_order_operators() -> None:
    def branches(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))

    def second(x: Tensor) -> Tensor:
        return torch.func.hessian(lambda x: (x**3).sum())(x)

    for f in (branches, second):
        compiled = torch.compile(f, backend="tpu")
        for x in (torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -3.0])):
            torch.testing.assert_close(compiled(x.tpu()).cpu(), f(x))


def test_custom_operators_that_look_at_elements() -> None:
    @torch.library.custom_op("tests_compile::scaled_by_sum", mutates_args=())
    def scaled_by_sum(x: Tensor) -> Tensor:
        return x * x.sum().item()

    scaled_by_sum.register_fake(torch.empty_like)
    compiled = torch.compile(lambda x: scaled_by_sum(x + 1), backend="tpu")
    assert compiled(torch.ones(2).tpu()).tolist() == [8, 8]
    assert compiled(torch.full((2,), 2.0).tpu()).tolist() == [18, 18]


def test_what_crosses_to_the_host_and_back(mode: str) -> None:
    up = torch.compile(lambda x: x.to("tpu") * 2, backend="tpu")
    down = torch.compile(lambda x: (x * 2).cpu() + 1, backend="tpu")
    by_host = torch.compile(lambda x, i: x[i] + 1, backend="tpu")
    for k in (1.0, 3.0):
        assert up(torch.full((2,), k)).tolist() == [2 * k, 2 * k]
        assert down(torch.full((2,), k).tpu()).tolist() == [2 * k + 1, 2 * k + 1]
        assert by_host(torch.arange(5.0).tpu(), torch.tensor([0, int(k)])).tolist() == [1, k + 1]


def test_an_error_in_a_graph_is_pytorchs_own() -> None:
    compiled = torch.compile(lambda x, y: x @ y, backend="tpu")
    with pytest.raises(Exception, match=r"shape|size"):
        compiled(torch.ones(2, 3).tpu(), torch.ones(4, 5).tpu())
    assert compiled(torch.ones(2, 3).tpu(), torch.ones(3, 5).tpu()).shape == (2, 5)


@pytest.mark.parametrize("more", [{"options": {"fast": True}}, {"mode": "fastest"}])
def test_what_it_does_not_know_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=r'torch.compile\(backend="tpu"\)|Unrecognized mode'):
        torch.compile(lambda x: x + 1, backend="tpu", **more)(torch.ones(2).tpu())


def test_graphs_of_the_cpu_run_there() -> None:
    assert torch.compile(lambda x: x + 1, backend="tpu")(torch.ones(2)).tolist() == [2, 2]
