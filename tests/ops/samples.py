"""Inputs for tests of operators."""

import torch

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.uint8)
REALS = (*FLOATS, *INTEGERS)
COMPLEX = (torch.complex64,)
SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3e38]


def values(
    *shape: int, dtype: torch.dtype = torch.float32, low: float = -4, high: float = 4, seed: int = 0
) -> torch.Tensor:
    """Values in [low, high], other ones for another seed; integers of an unsigned type start at 0."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_complex:
        return torch.view_as_complex(torch.rand(*shape, 2, generator=generator) * (high - low) + low).to(dtype)
    t = torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low
    if dtype == torch.uint8:
        t = t.abs()
    return (t if dtype.is_floating_point else t.round()).to(dtype)


def nonzero(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    t = values(*shape, dtype=dtype, seed=seed)
    return torch.where(t == 0, torch.ones((), dtype=dtype), t)


def layouts(dtype: torch.dtype = torch.float32, seed: int = 0) -> dict[str, torch.Tensor]:
    """Views that read their memory in other ways than from front to back."""
    base = values(4, 6, dtype=dtype, seed=seed)
    return {
        "scalar": values(dtype=dtype, seed=seed),
        "empty": values(0, 3, dtype=dtype, seed=seed),
        "transposed": base.t(),
        "stepped": base[::2, 1::2],
        "expanded": base[:1].expand(5, 6),
        "offset": base[2:, 3:],
    }


LAYOUTS = tuple(layouts())
