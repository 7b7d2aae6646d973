"""The cases on a PyTorch device: ours, TorchTPU's and the CPU, all by the same code."""

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch
import torch.nn.functional as F
from measure import STEPS, Figures, Measurement, arrival, decoding, decoding_cold, growing, steady, timed
from torch import Tensor, nn

VOCABULARY, CONTEXT, BATCH, POSITIONS = 96, 128, 16, 256


def setup(kind: str) -> Callable[[str], Measurement]:
    if kind == "torchtpu":  # its own start looks for the chips first
        from torch_tpu import _loader

        _loader._init_device("tpu")
        torch.backends.cuda.enable_flash_sdp(False)  # a kernel for TPUs only
    device = "tpu" if kind in ("tpu", "torchtpu") else "cpu"
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return lambda case: CASES[case](kind, device)


def versions(kind: str) -> dict[str, str]:
    found = {"torch": torch.__version__}
    if kind == "torchtpu":
        return {"TorchTPU": importlib.metadata.version("torch-tpu"), "torch of TorchTPU": torch.__version__}
    if kind == "tpu":
        from torch_tpu import _C

        device = _C.device_info()
        packages = importlib.metadata.packages_distributions()
        names = [name for part in Path(device["plugin"]).parts for name in packages.get(part, [])]
        plugin = f"{names[0]} {importlib.metadata.version(names[0])}" if names else Path(device["plugin"]).name
        facts = [f"PJRT {'.'.join(map(str, device['api_version']))}"]
        if (dialect := device["attributes"].get("stablehlo_current_version")) is not None:
            facts.append(f"StableHLO {dialect}")
        found |= {"plugin": f"{plugin} ({', '.join(facts)})"}
    return found


def demo_model() -> ModuleType:
    """The GPT of the demo, by its file: in TorchTPU's environment `torch_tpu` is another package."""
    path = Path(__file__).parent.parent / "torch_tpu/demo/model.py"
    spec = importlib.util.spec_from_file_location("demo_model", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["demo_model"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wait(device: str) -> None:
    if device != "cpu":
        torch.accelerator.synchronize()


def compiled(kind: str, fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return torch.compile(fn) if kind == "inductor" else fn


def with_peak(kind: str, measure: Measurement) -> Measurement:
    """Adds the device's peak bytes, where the device is ours."""
    if kind != "tpu":
        return measure

    def measured() -> Figures:
        torch.tpu.reset_peak_memory_stats()
        return measure() | {"bytes": torch.tpu.max_memory_allocated()}

    return measured


def two(device: str) -> tuple[Tensor, Tensor]:
    return torch.ones(16, 16).to(device), torch.full((16, 16), 1e-3).to(device)


def adds(device: str, count: int) -> Callable[[], None]:
    x, y = two(device)

    @torch.no_grad()
    def run() -> None:
        z = x
        for _ in range(count):
            z = z + y
        z.cpu()

    return run


def chain(kind: str, device: str) -> Measurement:
    return steady(adds(device, 100), 100)


def add_read(kind: str, device: str) -> Measurement:
    x, y = two(device)

    @torch.no_grad()
    def run() -> None:
        for _ in range(100):
            (x + y).cpu()

    return steady(run, 100)


def record(kind: str, device: str) -> Measurement:
    x, y = two(device)

    @torch.no_grad()
    def run() -> None:
        for _ in range(1000):
            x + y

    return steady(run, 1000)


def training(
    kind: str, model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, target: Tensor, clip: float | None = None
) -> Callable[[], Tensor]:
    loss_of = compiled(kind, lambda x, target: F.cross_entropy(model(x).flatten(0, -2), target.flatten()))

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(x, target)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss.detach()

    return step


def mlp_step(kind: str, device: str) -> Callable[[], Tensor]:
    layers = nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    model = nn.Sequential(*layers).to(device)
    x, target = torch.randn(64, 784).to(device), torch.randint(0, 10, (64,)).to(device)
    return training(kind, model, torch.optim.SGD(model.parameters(), lr=0.01), x, target)


def gpt_step(kind: str, device: str, layers: int = 4) -> Callable[[], Tensor]:
    demo = demo_model()
    model = demo.GPT(demo.Config(VOCABULARY, layers=layers, context=CONTEXT)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    tokens = torch.randint(0, VOCABULARY, (BATCH, CONTEXT + 1))
    x, target = tokens[:, :-1].contiguous().to(device), tokens[:, 1:].contiguous().to(device)
    return training(kind, model, optimizer, x, target, clip=1.0)


def several(step: Callable[[], Tensor], steps: int, device: str) -> Callable[[], None]:
    def run() -> None:
        for _ in range(steps):
            loss = step()
        loss.item()
        wait(device)  # the loss is there before the step ends, where work is deferred or compiled in the background

    return run


def mlp(kind: str, device: str) -> Measurement:
    return steady(several(mlp_step(kind, device), STEPS["mlp"], device), STEPS["mlp"])


def gpt(kind: str, device: str) -> Measurement:
    return with_peak(kind, steady(several(gpt_step(kind, device), STEPS["gpt"], device), STEPS["gpt"], warm=2))


def first(name: str) -> Callable[[str, str], Measurement]:
    def case(kind: str, device: str) -> Measurement:
        run = several(gpt_step(kind, device), 1, device)
        wait(device)
        return lambda: {name: timed(run)}

    return case


def depth(name: str, layers: int) -> Callable[[str, str], Measurement]:
    """Seconds of compiling in five steps, by the device's own count."""

    def case(kind: str, device: str) -> Measurement:
        run = several(gpt_step(kind, device, layers), 5, device)

        def measured() -> Figures:
            before = torch.tpu.compile_stats()["compile_ns"]
            run()
            return {name: (torch.tpu.compile_stats()["compile_ns"] - before) * 1e-9}

        return measured

    return case


def token_at(kind: str, device: str) -> Callable[[int], int]:
    """A greedy token after the one before it, its position a Python number, caches written in place."""
    demo = demo_model()
    model = demo.GPT(demo.Config(VOCABULARY, context=POSITIONS)).to(device).eval()
    caches = model.caches(1)
    token = torch.zeros(1, 1, dtype=torch.long).to(device)

    @torch.no_grad()
    def step(position: int) -> int:
        nonlocal token
        token = model(token, caches, position).argmax(-1)
        return int(token)

    return step


def grow(each: bool) -> Callable[[str, str], Measurement]:
    def case(kind: str, device: str) -> Measurement:
        one = torch.ones(1).to(device)
        return growing(one, lambda x: torch.cat([x, one]), Tensor.cpu, each)

    return case


def block(kind: str, device: str) -> Measurement:
    """All memory traffic and little arithmetic: what fusing is for."""
    width = 1024
    x = torch.randn(4096, width).to(device)
    norm, scale = nn.LayerNorm(width).to(device), torch.full((width,), 0.5).to(device)

    @torch.no_grad()
    def run() -> None:
        y = (x + F.dropout(F.gelu(norm(x)), 0.1)) * scale
        wait(device)
        del y

    return with_peak(kind, steady(run, 1))


def first_tensor(kind: str, device: str) -> Measurement:
    def make() -> None:
        torch.ones(1).to(device)
        wait(device)

    return arrival(make)


def live(kind: str, device: str) -> Measurement:
    run, one, kept = adds(device, 1000), torch.ones(2).to(device), list[Tensor]()

    @torch.no_grad()
    def beside(count: int) -> float:
        kept.extend(one + 1 for _ in range(count - len(kept)))
        wait(device)
        return steady(run, 1000)()["seconds"]

    return lambda: {"few": beside(10), "many": beside(1_000_000)}


def length(kind: str, device: str) -> Measurement:
    def of(count: int) -> float:
        return steady(adds(device, count), count)()["seconds"]

    return lambda: {"short": of(100), "long": of(100_000)}


def entries(name: str, others: int = 0) -> Callable[[str, str], Measurement]:
    """Programs that another process made, beside as many more entries: files that nobody asks for."""

    def case(kind: str, device: str) -> Measurement:
        cache = Path(os.environ["TORCH_TPU_CACHE_DIR"])
        for i in range(others):
            (cache / f"{i:048x}.entry").write_bytes(b"")
        x = torch.arange(64.0).to(device)

        def run() -> None:
            for size in range(1, 41):
                (x[:size] * 2).cpu()

        return lambda: {name: timed(run) / 40}

    return case


CASES: dict[str, Callable[[str, str], Measurement]] = {
    "chain": chain,
    "add_read": add_read,
    "record": record,
    "mlp": mlp,
    "gpt": gpt,
    "decode": lambda kind, device: decoding(token_at(kind, device)),
    "decode_cold": lambda kind, device: decoding_cold(token_at(kind, device)),
    "grow_each": grow(each=True),
    "grow_end": grow(each=False),
    "block": block,
    "first_cold": first("cold"),
    "first_warm": first("warm"),
    "import": first_tensor,
    "depth_2": depth("shallow", 2),
    "depth_24": depth("deep", 24),
    "live": live,
    "length": length,
    "entries_made": entries("made"),
    "entries_few": entries("few"),
    "entries_many": entries("many", 100_000),
}
