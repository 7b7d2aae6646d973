"""torch.Generator("tpu"), seeds and states."""

import copy

import pytest
import torch
from torch.utils.checkpoint import checkpoint


def draw(generator: torch.Generator | None = None) -> torch.Tensor:
    return torch.rand(5, device="tpu", generator=generator).cpu()


def test_seed_decides() -> None:
    torch.manual_seed(3)
    first, second = draw(), draw()
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(draw(), first)
    torch.tpu.manual_seed(4)
    assert not torch.equal(draw(), first)
    torch.tpu.manual_seed_all(3)
    assert torch.equal(draw(), first)
    assert torch.tpu.initial_seed() == 3


def test_own_generators() -> None:
    generator = torch.Generator("tpu").manual_seed(3)
    assert generator.device.type == "tpu"
    torch.manual_seed(3)
    expected = draw()
    torch.manual_seed(0)
    untouched = torch.tpu.get_rng_state()
    assert torch.equal(draw(generator), expected)
    assert torch.equal(torch.tpu.get_rng_state(), untouched)
    state = generator.get_state()
    following = draw(generator)
    generator.set_state(state)
    assert torch.equal(draw(generator), following)
    twin = generator.clone_state() if hasattr(generator, "clone_state") else copy.deepcopy(generator)
    assert torch.equal(draw(twin), draw(generator))
    assert generator.initial_seed() == 3
    assert torch.Generator("tpu").seed() != torch.Generator("tpu").seed()


def test_streams_of_seeds_differ() -> None:
    drawn = [draw(torch.Generator("tpu").manual_seed(seed)) for seed in (0, 1, 2**32, 2**63 + 1, -1)]
    for i, a in enumerate(drawn):
        assert not any(torch.equal(a, b) for b in drawn[i + 1 :])


def test_state() -> None:
    torch.manual_seed(5)
    draw()
    state = torch.tpu.get_rng_state()
    assert state.dtype == torch.uint8 and state.device.type == "cpu"
    expected = draw()
    torch.tpu.set_rng_state(state)
    assert torch.equal(draw(), expected)
    with pytest.raises(RuntimeError, match="16 bytes"):
        torch.tpu.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_fork_rng() -> None:
    torch.manual_seed(6)
    with torch.random.fork_rng(devices=[0], device_type="tpu"):
        torch.manual_seed(9)
        draw()
    after = draw()
    torch.manual_seed(6)
    assert torch.equal(draw(), after)


def test_checkpoint_repeats_dropout() -> None:
    x = torch.ones(100, device="tpu", requires_grad=True)
    y = checkpoint(lambda t: torch.nn.functional.dropout(t * t, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), 2 * y.detach().cpu())


def test_neighbouring_draws_share_no_counter() -> None:
    torch.manual_seed(0)
    a = torch.multinomial(torch.ones(50, device="tpu"), 1)
    b, c = torch.rand(50, device="tpu").cpu(), torch.rand(50, device="tpu").cpu()
    assert a.shape == (1,)
    assert not set(b.tolist()) & set(c.tolist())


def test_wrong_device() -> None:
    with pytest.raises(RuntimeError, match="device type"):
        draw(torch.Generator("cpu"))
