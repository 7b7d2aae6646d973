"""A long region that repeats itself is launched in pieces, each distinct piece compiled once: csrc/runtime/split.h."""

import gc
import os
import random
import subprocess
import sys

import pytest
import torch
from oracle import launches
from torch import nn

import torch_tpu


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def train(device, layers, steps=3, width=64):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, width), *[Layer(width) for _ in range(layers)], nn.Linear(width, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    x = torch.randn(128, 8).to(device)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        losses.append(loss.item())
    return losses, model


def compiled():
    return torch.tpu.compile_stats()["compiles"]


@pytest.fixture(autouse=True)
def defer():
    with torch_tpu.eager_mode("defer"):
        yield


def test_programs_do_not_grow_with_the_layers():
    before = compiled()
    train("tpu", 6)
    few = compiled() - before
    before = compiled()
    train("tpu", 24)
    many = compiled() - before
    assert many <= few, "most are those of 6 layers"
    assert few < 40


def test_a_later_step_compiles_next_to_nothing():
    before = compiled()
    train("tpu", 12, steps=1, width=72)
    first = compiled() - before
    before = compiled()
    train("tpu", 12, steps=5, width=72)
    assert compiled() - before <= 2 < first


def test_the_numbers_are_those_of_the_cpu():
    got, model = train("tpu", 12)
    want, reference = train("cpu", 12)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    for a, b in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-4)


def test_what_pieces_hand_on_is_freed():
    train("tpu", 12)
    gc.collect()
    before = torch.tpu.memory_allocated()
    train("tpu", 12)
    gc.collect()
    assert torch.tpu.memory_allocated() <= before


def test_the_peak_is_no_higher_than_in_strict_mode():
    def peak():
        gc.collect()
        torch.tpu.reset_peak_memory_stats()
        base = torch.tpu.memory_allocated()
        train("tpu", 16, width=128)
        return torch.tpu.max_memory_allocated() - base

    deferred = peak()
    with torch_tpu.eager_mode("strict"):
        strict = peak()
    assert deferred <= 1.2 * strict


@pytest.mark.parametrize("mode", ["defer", "strict"])
def test_what_follows_quickly_is_made_again_for_the_backward_pass(mode):
    """Forward keeps the input of a GELU for backward, of 8 MiB in all, but not what it makes of it, in pieces."""
    torch.manual_seed(0)
    first = torch.randn(64, 512).tpu()
    weights = [torch.randn(512, 64).tpu().requires_grad_() for _ in range(16)]
    x = torch.randn(256, 64).tpu().requires_grad_()

    def step(x):
        y = x
        for w in weights:
            y = y + (nn.functional.gelu(y @ first * 0.01) @ w) * 0.01
        return torch.autograd.grad(y.square().mean(), [x, *weights])

    with torch_tpu.eager_mode(mode):
        step(x)
        torch.tpu.synchronize()
        gc.collect()
        torch.tpu.reset_peak_memory_stats()
        base = torch.tpu.memory_allocated()
        step(x)
        torch.tpu.synchronize()
        peak = torch.tpu.max_memory_allocated() - base
    assert (peak < 12 << 20) == (mode == "defer"), peak


def test_what_is_made_again_is_the_same():
    torch.manual_seed(1)
    data = torch.randn(2, 300, 256)

    def run(device):
        w = [torch.full((256,), 0.9 + 0.01 * i, device=device, requires_grad=True) for i in range(16)]
        x = data.to(device)
        for v in w:
            x = x + nn.functional.gelu(nn.functional.layer_norm(x * v, (256,))).tanh() * 0.1
        x.square().mean().backward()
        return [v.grad.cpu() for v in w]

    torch.testing.assert_close(run("tpu"), run("cpu"), rtol=1e-4, atol=1e-6)


def test_results_of_any_piece_may_be_held():
    torch.manual_seed(0)
    w = [torch.randn(256, 256) / 16 for _ in range(40)]
    x = torch.randn(256, 256)

    def run(device):
        kept, y = [], x.to(device)
        for k, m in enumerate(w):
            y = torch.tanh(y @ m.to(device)) + y * 0.5
            y = y - y.mean(0)
            y = y / (1 + y.abs().amax())
            y = torch.sin(y).exp().neg().sigmoid().sub(0.25).mul(1.5).cos()
            if k % 7 == 3:
                kept.append(y)
        kept.append(y)
        return kept

    with launches() as count:
        got = run("tpu")
        got[0].cpu()
        assert count() > 2, "in pieces"
    for a, b in zip(got, run("cpu"), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)


def test_a_piece_that_does_not_compile_leaves_the_device_usable(monkeypatch):
    x = torch.randn(300, 300).tpu()

    def layers(x):
        for _ in range(40):
            x = torch.tanh(x * 0.5).sin().exp().neg().abs().sqrt().cos().add(0.25)
        return x

    monkeypatch.setenv("TORCH_TPU_FAIL_COMPILE", "erf")
    with pytest.raises(RuntimeError, match=r"aten::erf recorded at .*does not compile"):
        layers(layers(x).erf()).cpu()
    monkeypatch.delenv("TORCH_TPU_FAIL_COMPILE")
    torch.testing.assert_close(layers(x).cpu(), layers(x.cpu()), rtol=1e-4, atol=1e-5)


PIECES = """
import torch, torch_tpu
from torch import nn
torch_tpu.eager_mode("defer")
torch.manual_seed(0)
layers = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64), nn.Tanh())
                         for _ in range(40)]).tpu()
with torch_tpu.explain() as made:
    for _ in range(2):
        layers(torch.randn(256, 64).tpu()).square().mean().backward()
        torch.tpu.synchronize()
print(torch.tpu.compile_stats()["executions"])
for program in made.programs:
    print(program.name, program.argument_bytes, program.output_bytes, program.key[:32])  # without that of the options
"""


def test_pieces_depend_on_the_program_alone():
    def run(**settings):
        env = {**os.environ, "TORCH_TPU_CACHE_DIR": "", **settings}
        done = subprocess.run([sys.executable, "-c", PIECES], env=env, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    pieces = run(PYTHONHASHSEED="1")
    assert len(pieces) > 3
    assert run(PYTHONHASHSEED="2", TORCH_TPU_OPT_LEVEL="3") == pieces, "with another time to compile"


def random_program(seed, device):
    """A random layer, many times: writes into what it reads, views, results that are held for long or not at all."""
    choose = random.Random(seed)
    torch.manual_seed(seed)
    n = choose.choice([8, 64, 200])
    recipe = [(choose.randrange(12), choose.randrange(3), choose.randrange(3)) for _ in range(choose.randint(6, 30))]
    weights = [torch.randn(n, n, dtype=torch.float64).to(device) / n for _ in range(choose.randint(8, 60))]
    state = [torch.randn(n, n, dtype=torch.float64).to(device) for _ in range(3)]
    shared, held = torch.zeros(n, n, dtype=torch.float64).to(device), []
    keep = choose.random() * 0.3
    for w in weights:
        for op, a, b in recipe:
            x, y = state[a], state[b]
            match op:
                case 0:
                    state[a] = torch.tanh(x @ w + y)
                case 1:
                    state[a] = x * 0.5 + y.mean(0)
                case 2:
                    w.mul_(0.9).add_(torch.sigmoid(x), alpha=1 / n)
                case 3:
                    state[a] = torch.cat([x[1:], y[:1]])
                case 4:
                    shared.add_(x.t() * 0.01)
                case 5:
                    state[b] = torch.where(x > y, x, y.neg())
                case 6:
                    x[: n // 2].mul_(0.5)
                case 7:
                    state[a] = x.softmax(-1) + y * 0.25
                case 8:
                    state[b] = torch.zeros_like(x).add_(y).clamp_(-2, 2)
                case 9:
                    x.t()[1:].copy_(y[:, 1:].t() * 0.5)
                case 10:
                    state[a] = (x - shared).cos()
                case 11:
                    state[a] = x / (1 + y.abs().amax(1, keepdim=True))
            if choose.random() < keep:
                held.append(state[a])
            if held and choose.random() < keep / 2:
                del held[choose.randrange(len(held))]
    if choose.random() < 0.5:  # an optimizer's way: each step for all
        for w in weights:
            w.mul_(0.99)
        for w in weights:
            w.sub_(shared, alpha=0.01)
        for w in weights:
            w.div_(1 + w.abs())
    return [*state, shared, *held, *weights]


@pytest.mark.parametrize("seed", range(8))
def test_random_layers_are_those_of_the_cpu(seed):
    got, want = random_program(seed, "tpu"), random_program(seed, "cpu")
    torch.testing.assert_close([g.cpu() for g in got], want, rtol=1e-9, atol=1e-9)
