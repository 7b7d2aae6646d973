"""A small GPT, written as for any PyTorch device."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    vocabulary: int
    layers: int = 4
    heads: int = 4
    width: int = 128
    context: int = 128
    dropout: float = 0.0


Cache = tuple[Tensor, Tensor]  # keys and values, [batch, heads, context, width / heads]


class Attention(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, cache: Cache | None = None, position: int = 0) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if cache is None:
            rate = self.dropout if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=True)
        else:
            keys, values = cache
            keys[:, :, position : position + length] = k
            values[:, :, position : position + length] = v
            seen = torch.arange(keys.shape[2], device=x.device) < position + length
            y = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen[None])
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width), nn.GELU(), nn.Linear(4 * config.width, config.width)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, cache: Cache | None = None, position: int = 0) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), cache, position))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.apply(_initialize)

    def forward(self, tokens: Tensor, caches: list[Cache] | None = None, position: int = 0) -> Tensor:
        places = self.position.weight[position : position + tokens.shape[1]]
        x = self.dropout(self.token(tokens) + places)
        for i, block in enumerate(self.blocks):
            x = block(x, caches[i] if caches else None, position)
        return self.head(self.norm(x))

    def caches(self, batch: int) -> list[Cache]:
        c = self.config
        shape = (batch, c.heads, c.context, c.width // c.heads)
        weight = self.token.weight
        return [(weight.new_zeros(shape), weight.new_zeros(shape)) for _ in range(c.layers)]

    def groups(self, weight_decay: float) -> list[dict[str, object]]:
        """Parameter groups: matrices decay, biases and norms do not."""
        matrices = [p for p in self.parameters() if p.dim() >= 2]
        others = [p for p in self.parameters() if p.dim() < 2]
        return [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]

    @torch.no_grad()
    def sample(self, first: Tensor, length: int, temperature: float = 0.8) -> Tensor:
        """Continues each row of ``first`` [batch, 1] to ``length`` tokens; one token a step, keys and values cached."""
        caches, tokens = self.caches(len(first)), [first]
        for position in range(min(length, self.config.context) - 1):
            logits = self(tokens[-1], caches, position)[:, -1]
            tokens.append(torch.multinomial((logits / temperature).softmax(-1), 1))
        return torch.cat(tokens, 1)


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
