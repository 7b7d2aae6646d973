"""Real English text that every Python ships: the reference manual behind ``help()``."""

from pydoc_data import topics

import torch
from torch import Tensor


class Text:
    """All topics as one string of characters, and batches of it."""

    def __init__(self) -> None:
        text = "\n".join(topics.topics[name] for name in sorted(topics.topics))
        self.characters = sorted(set(text))
        index = {c: i for i, c in enumerate(self.characters)}
        self.tokens = torch.tensor([index[c] for c in text])

    def decode(self, tokens: list[int]) -> str:
        return "".join(self.characters[t] for t in tokens)

    def batches(self, steps: int, batch: int, context: int, seed: int) -> list[tuple[Tensor, Tensor]]:
        """Inputs and targets [batch, context]; equal seeds give equal batches in equal order."""
        generator = torch.Generator().manual_seed(seed)
        starts = torch.randint(len(self.tokens) - context - 1, (steps, batch), generator=generator)
        windows = self.tokens[starts[..., None] + torch.arange(context + 1)]
        return [(w[:, :-1].contiguous(), w[:, 1:].contiguous()) for w in windows]
