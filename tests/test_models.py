"""Training steps of small models are those of the CPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import check
from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """A transformer block, with what stands before and behind it in a language model."""

    def __init__(self, width: int = 16, heads: int = 2, words: int = 11) -> None:
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(words, width)
        self.place = nn.Parameter(torch.randn(8, width))
        self.before, self.between, self.after = (nn.LayerNorm(width) for _ in range(3))
        # No bias: the gradient of the keys' is 0, and Adam would make a step of its rounding errors.
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed(words) + self.place
        b, t, c = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, t, 3, self.heads, -1).transpose(1, 3).unbind(2)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(b, t, c))
        x = x + self.narrow(F.gelu(self.wide(self.between(x))))
        return self.after(x) @ self.embed.weight.t()


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 5))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(8, 8, 3, stride=2, groups=2),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor], tuple[int, ...], int]] = {
    "mlp": (mlp, lambda: torch.randn(6, 12), (6,), 5),
    "cnn": (cnn, lambda: torch.randn(6, 3, 12, 12), (6,), 5),
    "transformer": (Block, lambda: torch.randint(0, 11, (3, 8)), (3, 8), 11),
}


@pytest.mark.parametrize("mode", ["strict", "defer"])
@pytest.mark.parametrize("name", MODELS)
def test_training(name: str, mode: str) -> None:
    make, data, labels, classes = MODELS[name]

    def run(x: Tensor, y: Tensor) -> Any:
        torch.manual_seed(0)
        model = make().to(x.device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses), list(model.state_dict().values())

    torch.manual_seed(1)
    check(run, data(), torch.randint(0, classes, labels), mode=mode, rtol=1e-3, atol=1e-3)
