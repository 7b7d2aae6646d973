"""Random loops in which a tensor grows, for comparing what padding gives with what exact shapes give."""

import random
from dataclasses import dataclass
from typing import Any

import torch

import torch_tpu

# Of `x`, which grows along `dim`; `d` is any dimension. `row` is one step of x; `mask` and `index` fit it.
ANY = """
x.clone() | x.transpose(0, -1) | x.transpose(0, -1).contiguous() | x.reshape(-1) | x.flatten().clone()
x.select(dim, x.shape[dim] - 1) | x.select(dim, -1).clone() | x.narrow(dim, 0, max(1, x.shape[dim] - 2)).clone()
x.narrow(dim, x.shape[dim] // 2, x.shape[dim] - x.shape[dim] // 2) | x.unsqueeze(d).clone()
x.unsqueeze(0).expand(3, *x.shape).clone() | torch.stack([x, x], d) | torch.where(x == x, x, row) | x == x
x.flip(d) | x.unfold(dim, 2, 1).clone() | x.movedim(dim, 0)[::2].clone() | x.any(d) | x.all() | x.count_nonzero(d)
torch.cat([x, x], dim) | torch.cat([x, x], d) | torch.cat([row, x], dim) | torch.cat([row, x, row, x, row], dim)
x.split(2, dim)[0].clone() | copy.deepcopy(x) | x.masked_fill(mask, 0) | x[..., :1] == x | x.expand_as(x).clone()
x.repeat(*[2] * x.dim()) | torch.zeros_like(x) | torch.ones_like(x).logical_and(x) | x.new_zeros(x.shape) | x.roll(1, d)
x.index_select(dim, index) | x.mT.clone() if x.dim() > 1 else x.clone() | x == x.transpose(0, -1) | x.diagonal(0, 0, -1)
pickle.loads(pickle.dumps(x)) | x.to(torch.complex64) if x.is_complex() else x.to(torch.float32)
"""
NUMBERS = """
x + 1 | x * row | x * x | x - x.transpose(0, 0) | x.sum(d) | x.sum() | x.sum(dim, keepdim=True) | x.prod(d) | -x
x + x.narrow(dim, 0, 1) | x.cumsum(d) | x.add(x, alpha=2) | torch.addcmul(x, x, row) | x.abs() | x.mul(3) | x + row * 2
"""
REAL = """
x.amax(d) | x.amax() | x.max(dim) | x.min(d) | x.argmax(d) | x.argmax() | x.argmin(dim, keepdim=True) | x.aminmax()
x.sort(d) | x.clamp(-1, 1) | x.topk(1, d) | x > 0 | torch.maximum(x, row) | x.relu() | x.div(3) | x.sign()
x.view(bits) | torch.tril(x) if x.dim() > 1 else x.sign() | x.mean(d) if x.is_floating_point() else x.sum(d)
"""
FLOATS = """
x.softmax(d) | x.log_softmax(dim) | x.exp() | x.tanh() | F.gelu(x) | x.norm() | x.var(d) | F.layer_norm(x, x.shape[-1:])
x @ x.transpose(-1, -2) if x.dim() > 1 else x @ x | x.transpose(-1, -2) @ x if x.dim() > 1 else x * 2 | x.std()
"""
WRITES = """
x.select(dim, -1).fill_(1) | x.select(dim, 0).copy_(x.select(dim, -1)) | x.narrow(dim, 0, 1).zero_()
x.detach().fill_(1) | x.copy_(row.expand_as(x)) | x.transpose(0, -1).narrow(-1, 0, 1).fill_(1) | x.masked_fill_(mask, 1)
x.copy_(x.flip(dim)) | x.movedim(dim, 0)[::2].fill_(1) | x.unsqueeze(0).logical_not_() | x.view(-1)[0].fill_(1)
x.reshape(-1)[-1:].fill_(1)
x.index_fill_(dim, index, 1) | x.set_(x.clone()) | x.untyped_storage().resize_(x.untyped_storage().nbytes() + 8)
"""
NUMBER_WRITES = """
x.add_(1) | x.mul_(row) | x.add_(x) | x.transpose(0, -1).mul_(2) | x.narrow(dim, 0, max(1, x.shape[dim] - 1)).add_(1)
torch.add(x, 1, out=x) | torch.add(x, 1, out=torch.empty_like(x)) | torch._foreach_add_([x, x.clone()], 1)
x.unsqueeze(0).sub_(3)
"""
DTYPES = (torch.float32, torch.float32, torch.int64, torch.int32, torch.bool, torch.bfloat16, torch.float64)
BITS = {torch.float32: torch.int32, torch.float64: torch.int64, torch.bfloat16: torch.int16}


def parts(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split(" | ")]


@dataclass
class Loop:
    dtype: torch.dtype
    shape: list[int]  # of one step
    dim: int
    start: int
    steps: int
    joins: str
    body: list[str]
    reads: bool  # each step, or only in the end
    shrinks: int  # every so many steps to half; 0: never
    seed: int


def generate(seed: int) -> Loop:
    pick = random.Random(seed)
    dtype = pick.choice((*DTYPES, torch.complex64))
    rank = pick.choice((1, 1, 2, 2, 2, 3, 4))
    shape = [pick.choice((1, 2, 3, 5)) for _ in range(rank)]
    dim, d = pick.randrange(rank), pick.randrange(rank)
    shape[dim] = pick.choice((1, 1, 1, 2, 3))
    values, writes = parts(ANY), parts(WRITES)
    if dtype is not torch.bool:
        values += parts(NUMBERS)
        writes += parts(NUMBER_WRITES)
        values += parts(REAL) if not dtype.is_complex else []
        values += parts(FLOATS) if dtype.is_floating_point else []
    body = []
    for _ in range(pick.choice((1, 2, 3, 4))):
        if pick.random() < 0.25:
            body.append(pick.choice(writes))
        else:
            # Of a result that looks like x, something more.
            second = pick.choice(values) if pick.random() < 0.3 else ""
            body.append(f"{pick.choice(values)} ; {second}" if second else pick.choice(values))
    return Loop(
        dtype=dtype,
        shape=shape,
        dim=dim,
        start=pick.choice((1, 1, 2, 4)),
        steps=pick.choice((8, 12, 20, 40)),
        joins=pick.choice(("[x, y]", "[x, y]", "[x, y]", "[y, x]", "[x, y, y]")),
        body=[f"d = {d}", *body],
        reads=pick.random() < 0.7,
        shrinks=pick.choice((0, 0, 0, 7, 11)),
        seed=seed,
    )


def values_of(loop: Loop, shape: list[int], draw: torch.Generator) -> torch.Tensor:
    if loop.dtype is torch.bool:
        return torch.rand(shape, generator=draw) > 0.5
    if loop.dtype.is_complex or loop.dtype.is_floating_point:
        wide = torch.complex64 if loop.dtype.is_complex else torch.float32
        return torch.randn(shape, generator=draw, dtype=wide).to(loop.dtype)
    return torch.randint(-50, 50, shape, generator=draw).to(loop.dtype)


def run(loop: Loop, device: str) -> list[Any]:
    """What the loop reads: tensors, and the kind of each exception."""
    draw = torch.Generator().manual_seed(loop.seed)
    dim = loop.dim
    row_shape, start = list(loop.shape), list(loop.shape)
    row_shape[dim], start[dim] = 1, loop.start
    names: dict[str, Any] = {
        "dim": dim,
        "torch": torch,
        "F": torch.nn.functional,
        "bits": BITS.get(loop.dtype, loop.dtype),
    }
    names |= {name: __import__(name) for name in ("copy", "pickle")}
    names["row"] = values_of(loop, row_shape, draw).to(device)
    names["mask"] = (torch.rand(row_shape, generator=draw) > 0.5).to(device)
    names["index"] = torch.tensor([0]).to(device)
    x = values_of(loop, start, draw).to(device)
    out: list[Any] = []

    def keep(value: Any) -> None:
        for t in value if isinstance(value, tuple | list) else [value]:
            if isinstance(t, torch.Tensor):
                out.append(t.detach().cpu() if loop.reads else t)

    for step in range(loop.steps):
        names["x"], names["y"] = x, values_of(loop, loop.shape, draw).to(device)
        x = torch.cat(eval(loop.joins, names), dim)
        if loop.shrinks and step % loop.shrinks == loop.shrinks - 1:
            x = x.narrow(dim, x.shape[dim] // 2, x.shape[dim] - x.shape[dim] // 2).clone()
        for line in loop.body:
            if line.startswith("d = "):
                names["d"] = int(line[4:])
                continue
            first, _, second = line.partition(" ; ")
            try:
                value = eval(first, {**names, "x": x})
                if second and isinstance(value, torch.Tensor) and (value.shape, value.dtype) == (x.shape, x.dtype):
                    value = eval(second, {**names, "x": value})
            except (RuntimeError, IndexError, ValueError, TypeError) as error:
                out.append(type(error).__name__)
                continue
            keep(value)
        if loop.reads:
            keep(x)
    keep(x)
    return [t.detach().cpu() if isinstance(t, torch.Tensor) else t for t in out]


def equal_bits(a: Any, b: Any) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return bool(a == b)
    if (a.shape, a.dtype, a.stride()) != (b.shape, b.dtype, b.stride()):
        return False
    if a.is_complex():
        a, b = torch.view_as_real(a.contiguous()), torch.view_as_real(b.contiguous())
    if not a.is_floating_point():
        return bool(a.equal(b))
    nan = a.isnan()
    if not nan.equal(b.isnan()):
        return False
    a, b = a.masked_fill(nan, 0), b.masked_fill(nan, 0)
    return bool(a.equal(b) and a.signbit().equal(b.signbit()))


def near(a: Any, b: Any) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return bool(a == b)
    loose = 1e-1 if a.dtype is torch.bfloat16 else 1e-3
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, rtol=loose, atol=loose, equal_nan=True)


def difference(seed: int, level: str) -> str | None:
    """How a loop's results at this level of dynamism differ from those with exact shapes; None where not."""
    loop = generate(seed)
    with torch_tpu.dynamism("off"):
        want = run(loop, "tpu")
    with torch_tpu.dynamism(level):
        got = run(loop, "tpu")
    same = equal_bits if level == "auto" else near
    if len(want) != len(got):
        return f"{loop}: {len(got)} results instead of {len(want)}"
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if not same(a, b):
            return f"{loop}: result {i} of {len(want)} is\n{a}\ninstead of\n{b}"
    return None
