"""DeferAndFuse where a stream puts the same calls together anew each time: call by call, and as exact as Strict."""

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import torch_tpu

CALLS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: (a - b).tanh(),
    lambda a, b: a @ b * 0.1,
    lambda a, b: a.t() - 0.5,
    lambda a, b: torch.where(a > b, a, b),
    lambda a, b: a.clone().add_(b, alpha=0.5),
    lambda a, b: a.roll(1, 0),
    lambda a, b: a.sort(-1)[0],
    lambda a, b: written(a, b),
]


def written(a: Tensor, b: Tensor) -> Tensor:
    a = a.clone()
    a[1:3] = b[2:4]
    a[:, 0].mul_(2)
    return a


def stream(steps: int, device: str = "tpu", calls: int = 20, seed: int = 0) -> list[Tensor]:
    """What is read after each of `steps` steps, all of calls and operands in an order of their own."""
    draw = random.Random(seed)
    read = []
    for _ in range(steps):
        pool = [torch.linspace(-1, 1, 36).reshape(6, 6).to(device) + i for i in range(3)]
        for _ in range(calls):
            call = draw.choice(CALLS)
            a, b = draw.choices(pool, k=2)
            pool[draw.randrange(3)] = call(a, b).clamp(-3, 3)
        read.append(torch.stack(pool).cpu())
    return read


def test_it_compiles_no_more_than_strict_and_gives_the_same_bits() -> None:
    before = torch.tpu.compile_stats()
    with torch_tpu.eager_mode("defer"):
        got = stream(60)
    after = torch.tpu.compile_stats()
    with torch_tpu.eager_mode("strict"):
        want = stream(60)
    strict = torch.tpu.compile_stats()["compiles"] - after["compiles"]
    assert after["unfused"] - before["unfused"] >= 50
    assert after["compiles"] - before["compiles"] <= strict + 5
    assert all(torch.equal(a, b) for a, b in zip(got[5:], want[5:], strict=True))
    torch.testing.assert_close(got, stream(60, "cpu"), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore::torch_tpu.CompileStormWarning")
def test_what_repeats_is_never_launched_call_by_call() -> None:
    with torch_tpu.eager_mode("defer"):
        before = torch.tpu.compile_stats()
        for step in range(40):
            stream(1, seed=step % 3)
        for rows in range(10, 20):  # new sizes are new calls
            x = torch.ones(rows, 3).tpu()
            for _ in range(20):
                x = (x * 1.5).sin()
            x.sum().item()
        assert torch.tpu.compile_stats()["unfused"] == before["unfused"]


def test_a_value_is_freed_when_the_last_call_has_read_it() -> None:
    def step(order: list[int]) -> None:
        x = torch.ones(1 << 18).tpu()
        for k in order:
            x = [torch.sin, torch.cos, torch.exp, torch.neg][k](x)
        x.sum().item()

    draw = random.Random(0)
    with torch_tpu.eager_mode("defer"):
        for _ in range(8):
            step([draw.randrange(4) for _ in range(30)])
        torch.tpu.reset_peak_memory_stats()
        held = torch.tpu.memory_allocated()
        step([draw.randrange(4) for _ in range(30)])
    assert torch.tpu.max_memory_allocated() - held <= 4 << 20


def test_an_error_names_its_call_and_leaves_the_device_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch_tpu.eager_mode("defer"):
        stream(6)
        monkeypatch.setenv("TORCH_TPU_FAIL_COMPILE", "erfinv")
        a = torch.full((6, 6), 0.5).tpu()
        kept = a + 1
        lost = (a @ a).clamp(-3, 3).erfinv() + kept
        late = lost.tanh()
        with pytest.raises(RuntimeError, match=r"aten::erfinv recorded at .*test_novelty\.py"):
            late.cpu()
        monkeypatch.delenv("TORCH_TPU_FAIL_COMPILE")
        with pytest.raises(RuntimeError, match="erfinv"):
            (late + 1).cpu()
        assert (a + 2).sum().item() == 90
        stream(3)


def test_draws_and_their_order_are_those_of_strict() -> None:
    def draws(mode: str) -> list[Tensor]:
        torch.manual_seed(3)
        draw, read = random.Random(1), []
        with torch_tpu.eager_mode(mode):
            for _ in range(12):
                x = torch.zeros(5).tpu()
                for _ in range(10):
                    x = x + [torch.rand_like, torch.randn_like, torch.sign, torch.floor][draw.randrange(4)](x)
                read.append(x.cpu())
        return read

    assert all(torch.equal(a, b) for a, b in zip(draws("defer")[6:], draws("strict")[6:], strict=True))
