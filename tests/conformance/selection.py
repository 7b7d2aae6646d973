"""Which operators the sweep takes, and what is particular about some."""

import hashlib
import re
from functools import cache
from typing import Any

import torch

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in ("float32", "bfloat16", "float16", "float64", "int64", "int32", "uint8", "bool", "complex64")
}

# Not swept: another layout, or written for one vendor's device.
LEFT_OUT = {
    "sparse": ("sparse_mm_reduce", "sparse_sampled_addmm", "to_sparse"),
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


@cache
def operators() -> dict[str, Any]:
    """PyTorch's OpInfos that are swept, by name."""
    from torch.testing._internal import common_methods_invocations

    # Operators that draw are wrapped to draw the same each time: here that would hide that they draw.
    common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    op_db = common_methods_invocations.op_db
    left_out = {name for names in LEFT_OUT.values() for name in names}
    return {op.formatted_name: op for op in op_db if op.formatted_name not in left_out}


def in_part(name: str, part: str) -> bool:
    """Whether an operator belongs to part "I/N", which depends on its name alone."""
    index, count = map(int, part.split("/"))
    if not 1 <= index <= count:
        raise ValueError(f"a part is I/N with 1 <= I <= N, got {part}")
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % count == index - 1


def pairs(ops: str = "", dtypes: list[str] | None = None, part: str = "1/1") -> list[tuple[str, str]]:
    """(operator, dtype) of all that is asked for and that PyTorch supports on the CPU, a dtype after the other."""
    names = [name for name in operators() if re.search(ops, name) and in_part(name, part)]
    return [
        (name, dtype)
        for dtype in dtypes or DTYPES
        for name in sorted(names)
        if operators()[name].supports_dtype(DTYPES[dtype], "cpu")
    ]


def takes_error_inputs(name: str, dtype: str) -> bool:
    """An operator's error inputs have dtypes of their own: they run once, with the first dtype that it supports."""
    op = operators()[name]
    first = next((d for d in DTYPES if op.supports_dtype(DTYPES[d], "cpu")), None)
    return op.error_inputs_func is not None and dtype == first
