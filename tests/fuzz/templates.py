"""The statements that programs are made of: text with holes, filled from the tensors at hand.

A template is called with a ``Draw`` and the name and tensor of one variable, and returns a line of Python, or ``None``
where it does not apply. Whether a line is legal is left to PyTorch: one that raises on the CPU is not taken.
"""

import random
from collections.abc import Callable

import torch
from torch import Tensor


class Draw:
    """What a template chooses from: numbers, and the variables so far."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.tensors: dict[str, Tensor] = {}
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def variable(self, fits: Callable[[Tensor], bool] = lambda t: True) -> str | None:
        found = [name for name, t in self.tensors.items() if fits(t)]
        return self.random.choice(found) if found else None

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def among(self, *choices: str) -> str:
        return self.random.choice(choices)


Template = Callable[[Draw, str, Tensor], "str | None"]


def number(d: Draw, t: Tensor) -> str:
    if t.dtype == torch.bool:
        return d.among("True", "False")
    return d.among("1", "2", "-3") if not t.dtype.is_floating_point else d.among("0.5", "2.0", "-1.0", "3")


def partner(d: Draw, t: Tensor) -> str | None:
    """A variable that broadcasts to ``t``."""

    def fits(o: Tensor) -> bool:
        if o.dim() > t.dim():
            return False
        sizes = zip(reversed(o.shape), reversed(t.shape), strict=False)
        return all(a in (1, b) for a, b in sizes)

    return d.variable(fits)


# --- views ---


def slice_(d: Draw, x: str, t: Tensor) -> str | None:
    if t.dim() == 0:
        return None
    axis = d.integer(0, t.dim() - 1)
    start = d.integer(0, max(0, t.shape[axis] - 1))
    stop, step = d.integer(start, t.shape[axis]), d.among("", ":2", ":3")
    return f"{d.name()} = {x}[{':, ' * axis}{start}:{stop}{step}]"


def select(d: Draw, x: str, t: Tensor) -> str | None:
    if t.dim() == 0:
        return None
    axis = d.integer(0, t.dim() - 1)
    return f"{d.name()} = {x}.select({axis}, {d.integer(-1, max(0, t.shape[axis] - 1))})"


def transpose(d: Draw, x: str, t: Tensor) -> str | None:
    if t.dim() < 2:
        return None
    axes = d.random.sample(range(t.dim()), 2)
    return f"{d.name()} = {x}.transpose({axes[0]}, {axes[1]})"


def reshape(d: Draw, x: str, t: Tensor) -> str | None:
    kind = d.among("reshape", "view")
    shapes = {"(-1,)", f"({', '.join(map(str, reversed(t.shape)))},)", f"(1, {t.numel()})"}
    if t.numel() % 2 == 0:
        shapes.add(f"(2, {t.numel() // 2})")
    return f"{d.name()} = {x}.{kind}({d.random.choice(sorted(shapes))})"


def simple_view(d: Draw, x: str, t: Tensor) -> str | None:
    what = ["unsqueeze(0)", "unsqueeze(-1)", "squeeze()", "detach()", "view_as({x})", "flatten()", "t()", "diagonal()"]
    what += ["expand(2, *{x}.shape)", "unfold(0, 2, 1)", "unfold(-1, 2, 2)", "movedim(0, -1)", "narrow(0, 1, 1)"]
    what += [
        "as_strided((2, 2), (1, 2))",
        "as_strided((2,), (2,), 1)",
        "split(2)[0]",
        "chunk(2, -1)[-1]",
        "unbind()[0]",
    ]
    return f"{d.name()} = {x}.{d.random.choice(what).format(x=x)}"


# --- writes ---


def in_place(d: Draw, x: str, t: Tensor) -> str | None:
    other = partner(d, t) if d.integer(0, 2) else None
    operand = other or number(d, t)
    return f"{x}.{d.among('add_', 'sub_', 'copy_', 'copy_') if other else d.among('add_', 'sub_', 'fill_')}({operand})"


def assign(d: Draw, x: str, t: Tensor) -> str | None:
    if t.dim() == 0:
        return None
    place = d.among("0", "-1", "1:", "::2", "..., 0", ":1", "..., ::2", "None, ..., :1")
    return f"{x}[{place}] = {d.among(number(d, t), partner(d, t) or '1')}"


def masked(d: Draw, x: str, t: Tensor) -> str | None:
    # In floats, at places where no rounding decides.
    some = (f"{x} > 0.123", f"({x} - 1).abs() > 0.123") if t.dtype.is_floating_point else (f"{x} > 0", f"{x} != 1")
    zero = d.among(*some, f"{x} == {x}")
    return d.among(
        f"{x}[{zero}] = {number(d, t)}",
        f"{x}.masked_fill_({zero}, {number(d, t)})",
        f"{d.name()} = {x}[{zero}]",
        f"{d.name()} = torch.where({zero}, {x}, {partner(d, t) or number(d, t)})",
    )


def indexed(d: Draw, x: str, t: Tensor) -> str | None:
    if t.dim() == 0 or t.shape[0] == 0:
        return None
    index = ", ".join(str(d.integer(-t.shape[0], t.shape[0] - 1)) for _ in range(d.integer(1, 4)))
    places = f"torch.tensor([{index}], device=device)"
    return d.among(
        f"{d.name()} = {x}[{places}]",
        f"{x}[{places}] = {number(d, t)}",
        f"{d.name()} = {x}.index_select(0, {places} % {t.shape[0]})",
        f"{x}.index_add_(0, {places} % {t.shape[0]}, {x}[{places}])",
        f"{x}.index_fill_(0, {places} % {t.shape[0]}, {number(d, t)})",
    )


def out_variant(d: Draw, x: str, t: Tensor) -> str | None:
    other = partner(d, t)
    target = d.variable(lambda o: o.dtype == t.dtype and o.shape == t.shape)
    if other is None or target is None:
        return None
    return f"torch.{d.among('add', 'sub', 'maximum', 'minimum')}({x}, {other}, out={target})"


def resize(d: Draw, x: str, t: Tensor) -> str | None:
    del t
    return d.among(f"{x}.data = {x}.clone()", f"{x}.zero_()", f"{x}.swapaxes_(0, -1)", f"{x}.squeeze_()")


def foreach(d: Draw, x: str, t: Tensor) -> str | None:
    other = d.variable(lambda o: o.dtype == t.dtype)
    return f"torch._foreach_{d.among('add_', 'sub_', 'neg_', 'abs_')}([{x}, {other}]" + ")" if other else None


# --- values ---


def exact(d: Draw, x: str, t: Tensor) -> str | None:
    other = partner(d, t) or number(d, t)
    apart = ".detach()" if t.requires_grad else ""  # amax shares its gradient among equal elements, which rounds
    return d.among(
        f"{d.name()} = {x} + {other}",
        f"{d.name()} = {x} - {other}",
        f"{d.name()} = -{x}",
        f"{d.name()} = {x}.abs()",
        f"{d.name()} = {x}.clone()",
        f"{d.name()} = {x} * 2",
        f"{d.name()} = ({x} > {other})",
        f"{d.name()} = {x}.contiguous()",
        f"{d.name()} = {x}.to(torch.{d.among('float32', 'int64', 'int32', 'bool', 'float64', 'uint8', 'int16')})",
        f"{d.name()} = torch.cat([{x}, {x}])",
        f"{d.name()} = torch.stack([{x}, {x}], -1)",
        f"{d.name()} = {x}.flip(0)",
        f"{d.name()} = {x}.roll(1, -1)",
        f"{d.name()} = {x}{apart}.amax(-1)",
        f"{d.name()} = {x}.sort(-1, stable=True)[0]",
        f"{d.name()} = {x}.argmax(0)",
        f"{d.name()} = {x}.any()",
        f"{d.name()} = {x}.triu()",
        f"{d.name()} = {x}.nonzero()",
        f"{d.name()} = torch.zeros_like({x})",
    )


def read(d: Draw, x: str, t: Tensor) -> str | None:
    if t.numel() == 0:
        return None
    return f"{d.name()} = {x} + {x}.flatten()[{d.integer(0, t.numel() - 1)}].item()"


def rounded(d: Draw, x: str, t: Tensor) -> str | None:
    other = partner(d, t) or number(d, t)
    return d.among(
        f"{d.name()} = {x} * {other}",
        f"{d.name()} = {x} / {other}",
        f"{d.name()} = {x}.sum()",
        f"{d.name()} = {x}.float().mean(0)",
        f"{d.name()} = {x}.float().sigmoid()",
        f"{d.name()} = {x}.double().tanh()",
        f"{d.name()} = torch.softmax({x}.float(), -1)",
        f"{d.name()} = {x}.float() @ {x}.float().t()",
        f"{d.name()} = {x}.cumsum(0)",
        f"{d.name()} = {x}.var(0)",
        f"{x}.mul_(0.5)",
        f"{x}.clamp_(-4, 4)",
    )


VIEWS: list[Template] = [slice_, select, transpose, reshape, simple_view]
WRITES: list[Template] = [in_place, in_place, assign, masked, indexed, out_variant, resize, foreach]
EXACT: list[Template] = [exact, exact, exact, read]
ROUNDED: list[Template] = [rounded, rounded]
