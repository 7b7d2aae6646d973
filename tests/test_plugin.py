"""The choice of the PJRT plugin, its errors, and the device on each CPU plugin that is installed."""

from pathlib import Path

import pytest
import torch

from torch_tpu import _plugin

PLUGINS = _plugin.cpu_plugins()


def test_an_explicit_path_wins(monkeypatch):
    monkeypatch.setenv("TORCH_TPU_PLUGIN", "/somewhere/p.so")
    assert _plugin.find() == "/somewhere/p.so"


def test_libtpu_where_there_are_chips(monkeypatch, tmp_path):
    monkeypatch.delenv("TORCH_TPU_PLUGIN", raising=False)
    assert _plugin.find() == PLUGINS[0]
    (tmp_path / "libtpu").mkdir()
    (tmp_path / "libtpu" / "__init__.py").touch()
    (tmp_path / "libtpu" / "libtpu.so").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert _plugin.find() == PLUGINS[0], "libtpu without a chip is for compiling only"
    monkeypatch.setattr(_plugin, "tpu_chips", lambda: True)
    assert _plugin.find() == str(tmp_path / "libtpu" / "libtpu.so")
    assert _plugin.options(_plugin.find()) == {}


def test_none_installed(python):
    got = python("""
        import torch
        from torch_tpu import _C
        _C.configure("", {})
        print(torch.tpu.is_available(), torch.tpu.device_count(), torch.accelerator.is_available())
        try:
            torch.ones(3).to("tpu")
        except RuntimeError as error:
            print(error)
    """)
    assert got.out.startswith("False 0 False\n")
    assert "pip install --no-deps lammps-jax-pjrt-cpu" in got.out and "TORCH_TPU_PLUGIN" in got.out


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/no/such/plugin.so", "PJRT plugin /no/such/plugin.so: cannot be loaded: .*No such file"),
        (torch._C.__file__, "not a PJRT plugin: it exports no GetPjrtApi"),
        (__file__, "cannot be loaded: .*(invalid ELF header|file too short)"),
    ],
)
def test_not_a_plugin(python, path, what):
    got = python(
        f"""
        import re, torch
        for _ in range(2):  # the error stays the same
            try:
                torch.ones(3).to("tpu")
            except RuntimeError as error:
                assert re.search({what!r}, str(error)), error
                print("refused")
        """,
        TORCH_TPU_PLUGIN=path,
    )
    assert got.out == "refused\nrefused\n"


@pytest.mark.parametrize("path", PLUGINS, ids=lambda p: Path(p).parent.name)
def test_each_cpu_plugin(python, path):
    got = python(
        """
        import torch, torch_tpu
        props = torch.tpu.get_device_properties()
        print(props.platform, props.plugin, props.api_version >= (0, 81))
        for mode in ("strict", "debug", "defer"):
            with torch_tpu.eager_mode(mode):
                x = torch.arange(12.).view(3, 4).to("tpu").requires_grad_()
                y = (x * x + x.t().contiguous().t() * 2) [1:]
                y.backward(torch.ones(2, 4).to("tpu"))
                want = torch.arange(12.).view(3, 4)
                assert torch.equal(y.detach().cpu(), (want * want + want * 2)[1:])
                assert torch.equal(x.grad.cpu()[1:], (2 * want + 2)[1:])
                x.grad.add_(1)
                assert torch.equal(x.grad.cpu()[0], torch.ones(4))
        """,
        TORCH_TPU_PLUGIN=path,
    )
    assert got.out == f"cpu {path} True\n"
    assert got.err == ""
