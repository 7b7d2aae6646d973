"""Which operators the sweep takes, and what is particular about some."""

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in ("float32", "bfloat16", "float16", "float64", "int64", "int32", "uint8", "bool", "complex64")
}

# Not swept: another layout, or written for one vendor's device.
LEFT_OUT = {
    "sparse": ("sparse_mm_reduce", "sparse_sampled_addmm", "to_sparse", "optim.SparseAdam"),
    "writes to the CPU's memory through NumPy": ("function.NumpyExpMarkDirty",),
    "quantized": ("torch__scaled_mm", "torch__scaled_mm_v2"),
    "a dtype that the device refuses, ComplexHalf": ("chalf",),
    "CUDA only": (
        "bmm_triton_optimized",
        "jiterator_2inputs_2outputs",
        "jiterator_4inputs_with_extra_args",
        "jiterator_binary",
        "jiterator_binary_return_by_ref",
        "jiterator_unary",
        "torch_ops_aten__efficient_attention_forward",
        "torch_ops_aten__flash_attention_forward",
    ),
}

# What they return is memory that nobody wrote: shape, dtype and strides are all there is to compare.
UNDEFINED_CONTENTS = re.compile(r"(new_)?empty(_like|_permuted|_strided)?|resize_(as_)?")

# Matrix factorisations and what stands on them: counted on a line of their own.
FACTORISATIONS = re.compile(
    r"cholesky.*|geqrf|ormqr|qr|lu(_solve|_unpack)?|logdet|svd(_lowrank)?|pca_lowrank|pinverse|norm_nuc"
    r"|linalg_(cholesky|eig|inv|ldl|lstsq|lu|matrix_rank|pinv|slogdet|solve|svd|tensor(inv|solve)).*"
    r"|linalg_(cond|det|householder_product|matrix_norm|norm|norm_subgradients_at_zero|qr)"
)

# Positions of arguments that PyTorch wants on the CPU, whatever the device.
ON_HOST = {"tensor_split": (1,)}


def undefined_contents(name: str) -> bool:
    return UNDEFINED_CONTENTS.fullmatch(name) is not None


def factorisation(name: str) -> bool:
    return FACTORISATIONS.fullmatch(name) is not None and name != "linalg_solve_triangular"


# PyTorch's databases; the names of their entries begin so.
DATABASES = {"op": "", "module": "nn.", "optim": "optim.", "hop": "hop.", "function": "function."}


def database_of(name: str) -> str:
    """The database that an entry stands in."""
    return next((base for base, prefix in DATABASES.items() if prefix and name.startswith(prefix)), "op")


@cache
def entries(database: str) -> dict[str, Any]:
    """What PyTorch's database holds and is swept, by name: an OpInfo, ModuleInfo or OptimizerInfo each."""
    from torch.testing._internal import common_methods_invocations

    # Operators that draw are wrapped to draw the same each time: here that would hide that they draw.
    common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    if database == "op":
        found = {op.formatted_name: op for op in common_methods_invocations.op_db}
    elif database == "module":
        from torch.testing._internal.common_modules import module_db

        found = {info.name.replace("_", "."): info for info in module_db}
    elif database == "optim":
        from torch.testing._internal.common_optimizers import optim_db

        found = {f"optim.{info.optim_cls.__name__}": info for info in optim_db}
    elif database == "hop":
        from torch.testing._internal.hop_db import hop_db

        found = {f"hop.{op.formatted_name}": op for op in hop_db}
    else:
        from torch.testing._internal.autograd_function_db import autograd_function_db

        found = {f"function.{op.formatted_name.removesuffix('AutogradFunction')}": op for op in autograd_function_db}
    left_out = {name for names in LEFT_OUT.values() for name in names}
    return {name: info for name, info in found.items() if name not in left_out}


def supports(name: str, dtype: str) -> bool:
    """Whether PyTorch tests the entry in that dtype on the CPU."""
    info, wanted = entries(database_of(name))[name], DTYPES[dtype]
    if database_of(name) == "module":
        return wanted in info.dtypes
    if database_of(name) == "optim":
        return dtype in ("float32", "float64") or (dtype == "complex64" and info.supports_complex)
    if database_of(name) in ("hop", "function") and dtype not in ("float32", "float64"):
        return False
    return info.supports_dtype(wanted, "cpu")


def in_part(name: str, part: str) -> bool:
    """Whether an operator belongs to part "I/N", which depends on its name alone."""
    index, count = map(int, part.split("/"))
    if not 1 <= index <= count:
        raise ValueError(f"a part is I/N with 1 <= I <= N, got {part}")
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % count == index - 1


def pairs(
    ops: str = "", dtypes: list[str] | None = None, part: str = "1/1", databases: Iterable[str] = ("op",)
) -> list[tuple[str, str]]:
    """(entry, dtype) of all that is asked for and that PyTorch supports on the CPU, a dtype after the other."""
    names = [name for base in databases for name in entries(base) if re.search(ops, name) and in_part(name, part)]
    return [(name, dtype) for dtype in dtypes or DTYPES for name in sorted(names) if supports(name, dtype)]


def takes_error_inputs(name: str, dtype: str) -> bool:
    """An operator's error inputs have dtypes of their own: they run once, with the first dtype that it supports."""
    op = entries(database_of(name))[name]
    first = next((d for d in DTYPES if supports(name, d)), None)
    return op.error_inputs_func is not None and dtype == first
