"""`import torch` brings the device, in either order of imports, unless it is told not to."""

import subprocess
import sys

import pytest


def test_import_torch_is_enough(python):
    got = python("""
        import sys, torch
        print(torch.ones(3, device="tpu").cpu().tolist(), torch.tpu.is_available())
        print(torch.get_device_module("tpu") is torch.tpu, torch.accelerator.current_accelerator())
        import torch_tpu
        assert "jax" not in sys.modules
    """)
    assert got.out.splitlines() == ["[1.0, 1.0, 1.0] True", "True tpu"]
    assert got.err == "", "nothing on stderr, also from the plugin"


@pytest.mark.parametrize("first", ["torch_tpu", "torch_tpu.modes", "torch"])
def test_either_first(python, first):
    assert (
        python(f"""
        import {first}, torch, torch_tpu
        print((torch.arange(3., device="tpu") * 2).tolist())
    """).out
        == "[0.0, 2.0, 4.0]\n"
    )


def test_importing_starts_nothing(python):
    assert python("import torch; print(torch.tpu.is_available(), torch.tpu.is_initialized())").out == "True False\n"


def test_turned_off(python):
    got = python(
        """
        import sys, torch
        assert "torch_tpu" not in sys.modules and not hasattr(torch, "tpu")
        try:
            torch.ones(3, device="tpu")
        except RuntimeError as error:
            print(error)
        import torch_tpu
        print(torch.ones(3, device="tpu").tolist())
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert "tpu" in got.out and got.out.endswith("[1.0, 1.0, 1.0]\n")


def test_another_torch_is_refused(python):
    got = python("""
        import os
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        import torch
        torch.__version__ = "2.99.0"
        try:
            import torch_tpu
        except ImportError as error:
            print(error)
    """)
    assert "is built for torch 2.13.0, but torch 2.99.0 is installed: pip install torch==2.13.0" in got.out


def test_a_first_step_imports_no_compiler():
    """PyTorch's meta functions in Python import dynamo and sympy, 800 modules, when the first of them runs."""
    code = """
import sys, torch
from torch import nn
import torch.nn.functional as F
before = set(sys.modules)
model = nn.Sequential(nn.Embedding(10, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 10)).to("tpu")
x = torch.randint(0, 10, (4, 6)).to("tpu")
F.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
with torch.no_grad():
    y = torch.cat([x, x]).float().softmax(-1).sum(0) * 2
torch.tpu.synchronize()
print([m for m in ("torch._dynamo", "sympy") if m in set(sys.modules) - before])
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
