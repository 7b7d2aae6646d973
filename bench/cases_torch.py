"""The cases on a PyTorch device."""

import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Case = tuple[Callable[[], object], int]
HEADS, WIDTH, LAYERS, CACHE, VOCABULARY = 4, 128, 4, 256, 96


def setup(device: str, mode: str = "") -> tuple[Callable[[str], Case], dict[str, str]]:
    versions = {"torch": torch.__version__}
    if device == "tpu":
        import torch_tpu

        torch_tpu.eager_mode(mode)
        versions["plugin"] = torch.tpu.get_device_name()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    table = {"chain": chain, "add_read": add_read, "record": record, "mlp": mlp, "mlp_async": mlp_async}
    table |= {"decode": decode, "gpt": gpt, "gpt_async": gpt_async}
    return (lambda name: table[name](device)), versions


def two(device: str) -> tuple[Tensor, Tensor]:
    return torch.ones(16, 16, device=device), torch.full((16, 16), 1e-3, device=device)


def chain(device: str) -> Case:
    x, y = two(device)

    def run() -> None:
        with torch.no_grad():
            z = x
            for _ in range(100):
                z = z + y
            z.cpu()

    return run, 100


def add_read(device: str) -> Case:
    x, y = two(device)

    def run() -> None:
        with torch.no_grad():
            for _ in range(100):
                (x + y).cpu()

    return run, 100


def record(device: str) -> Case:
    x, y = two(device)

    def run() -> None:
        with torch.no_grad():
            for _ in range(1000):
                x + y

    return run, 1000


def mlp_step(device: str) -> Callable[[], Tensor]:
    layers = nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, target = torch.randn(64, 784).to(device), torch.randint(0, 10, (64,)).to(device)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


def read_each(step: Callable[[], Tensor], steps: int) -> Case:
    def run() -> None:
        for _ in range(steps):
            step().item()

    return run, steps


def read_last(step: Callable[[], Tensor], steps: int) -> Case:
    def run() -> None:
        for _ in range(steps):
            loss = step()
        loss.item()

    return run, steps


def mlp(device: str) -> Case:
    return read_each(mlp_step(device), 20)


def mlp_async(device: str) -> Case:
    return read_last(mlp_step(device), 20)


def gpt_step(device: str) -> Callable[[], Tensor]:
    from torch_tpu.demo.model import GPT, Config
    from torch_tpu.demo.train import step

    model = GPT(Config(VOCABULARY)).to(device)
    optimizer = torch.optim.AdamW(model.groups(weight_decay=0.1), lr=3e-4, betas=(0.9, 0.95))
    tokens = torch.randint(0, VOCABULARY, (16, 129)).to(device)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    return lambda: step(model, optimizer, inputs, targets)


def gpt(device: str) -> Case:
    return read_each(gpt_step(device), 4)


def gpt_async(device: str) -> Case:
    return read_last(gpt_step(device), 8)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, position: int, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.qkv(self.before(x)).view(3, HEADS, -1).unbind(0)
        keys[:, position] = k
        values[:, position] = v
        seen = F.scaled_dot_product_attention(q[None, :, None], keys[None], values[None], mask)
        x = x + self.out(seen.reshape(1, WIDTH))
        return x + self.down(F.gelu(self.up(self.after(x))))


def decode(device: str) -> Case:
    """A token at a position: each run goes on where the last ended, so that its positions are new."""
    blocks = nn.ModuleList(Block() for _ in range(LAYERS)).to(device)
    embedding, head = nn.Embedding(VOCABULARY, WIDTH).to(device), nn.Linear(WIDTH, VOCABULARY).to(device)
    caches = [[torch.zeros(HEADS, CACHE, WIDTH // HEADS, device=device) for _ in range(2)] for _ in blocks]
    slots = torch.arange(CACHE, device=device)
    positions = itertools.cycle(range(CACHE))

    def run() -> None:
        token = torch.zeros(1, dtype=torch.long, device=device)
        with torch.no_grad():
            for _ in range(8):
                position = next(positions)
                x = embedding(token)
                for block, (keys, values) in zip(blocks, caches, strict=True):
                    x = block(x, position, keys, values, (slots <= position)[None])
                token = head(x).argmax(-1)
                token.item()

    return run, 8
