"""Where DeferAndFuse cuts a stream that repeats: at the boundary of a step, as the stream alone decides."""

import itertools
import json

import pytest
import torch
from oracle import launches
from torch import nn

import torch_tpu


def train(device, steps, model=None, momentum=0.9):
    """Losses of an MLP, and how many programs were launched by the end of each step."""
    torch.manual_seed(1)
    model = model or nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 5))
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
    x, y = torch.randn(16, 20).to(device), torch.randint(0, 5, (16,)).to(device)
    losses, cuts = [], []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if device == "tpu":
            cuts.append(torch.tpu.compile_stats()["executions"])
    return torch.stack(losses).cpu(), cuts


def test_a_loop_without_a_sink_is_cut_at_its_step():
    torch_tpu.eager_mode("defer")
    want, _ = train("cpu", 60)
    got, cuts = train("tpu", 60)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    each = [after - before for before, after in itertools.pairwise(cuts[10:])]
    assert set(each) == {1}, "one launch a step once the period is known"
    before = torch.tpu.compile_stats()["compiles"]
    train("tpu", 60)
    assert torch.tpu.compile_stats()["compiles"] - before <= 1, "a second run finds all but the end of it"


def test_a_sink_in_each_step_is_the_only_cut():
    torch_tpu.eager_mode("defer")
    x = torch.full((4,), 1.0).tpu()
    with launches() as count:
        for i in range(30):
            for _ in range(40):
                x = (x * 1.01).sin()
            x.sum().item()
            assert count() == i + 1


def test_layers_with_weights_of_their_own_stay_one_program_while_they_are_few():
    torch_tpu.eager_mode("defer")
    layers = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()) for _ in range(30)]).tpu()
    x = torch.randn(2, 8).tpu()
    with torch.no_grad():
        layers(x).cpu()
        with launches() as count:
            layers(x).cpu()
            assert count() == 1


def test_many_equal_layers_are_one_program_each():
    torch_tpu.eager_mode("defer")
    layers = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()) for _ in range(500)])
    want = layers(torch.ones(2, 8)).detach()
    layers.tpu()
    before = torch.tpu.compile_stats()["compiles"]
    with torch.no_grad():
        got = layers(torch.ones(2, 8).tpu())
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)
    assert torch.tpu.compile_stats()["compiles"] - before <= 4


def test_each_step_of_a_deep_model_is_cut_at_the_same_places():
    """Its loss is there before it is read, since layers were cut by then."""
    torch_tpu.eager_mode("defer")
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 8)) for _ in range(120)]
    model = nn.Sequential(*layers).tpu()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=False)
    x = torch.randn(4, 8).tpu()
    each, compiles = [], []
    for _ in range(5):
        with launches() as count:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            loss.item()
            each.append(count())
            compiles.append(torch.tpu.compile_stats()["compiles"])
    assert each[1] > 3 and len(set(each[1:])) == 1, each
    assert compiles[1] == compiles[4], compiles


def test_values_of_each_step_outlive_its_cut():
    torch_tpu.eager_mode("defer")
    x, kept = torch.zeros(3).tpu(), []
    for i in range(400):
        x = (x + i).cos()
        x = x * 0.5
        if i % 7 == 0:
            kept.append(x)
    y, want = torch.zeros(3), []
    for i in range(400):
        y = (y + i).cos()
        y = y * 0.5
        if i % 7 == 0:
            want.append(y)
    torch.testing.assert_close(torch.stack(kept).cpu(), torch.stack(want), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("period", [1, 7, 40])
def test_writes_through_views_survive_cuts_anywhere(period):
    torch_tpu.eager_mode("defer")

    def run(device):
        x, y = torch.zeros(8, 4, device=device), torch.ones(4, device=device)
        for i in range(max(4, 200 // period)):
            for k in range(period):
                x[(i + k) % 8].add_(y, alpha=0.5)
                if k % 3 == 2:
                    y = y * 0.99 + x[k % 8] * 0.001
        return x.cpu(), y.cpu()

    for got, want in zip(run("tpu"), run("cpu"), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


CUTS = """
    import json, sys, time, torch, torch_tpu
    from torch import nn
    torch_tpu.eager_mode("defer")
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).tpu()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    executions = lambda: torch.tpu.compile_stats()["executions"]
    cuts = []
    for step in range(40):
        x = torch.randn(4, 6, device="tpu")
        loss = model(x).square().mean()
        cuts.append(executions())
        loss.backward()
        cuts.append(executions())
        optimizer.step()
        optimizer.zero_grad()
        cuts.append(executions())
        {noise}
    print(json.dumps(cuts))
"""


def test_cuts_depend_on_the_stream_alone(python):
    calm = json.loads(python(CUTS.replace("{noise}", "")).out)
    noise = "time.sleep(0.001 * (step % 5)); junk = [bytearray(1 << 16) for _ in range(step)]"
    rough = json.loads(python(CUTS.replace("{noise}", noise), PYTHONHASHSEED="7").out)
    assert calm == rough and calm[-1] > 20
