"""torch.tpu and what PyTorch itself asks of a device."""

import pytest
import torch
from torch import nn

import torch_tpu


def test_names():
    assert torch.device("tpu").type == "tpu" and torch.device("tpu").index is None
    assert torch.device("tpu:0") == torch.device("tpu", 0) == torch.device(0)
    x = torch.ones(3).tpu()
    assert x.is_tpu and not torch.ones(3).is_tpu and x.device == torch.device("tpu:0")
    assert repr(x.device) == "device(type='tpu', index=0)"
    assert x.get_device() == 0
    assert x.type() == "torch.tpu.FloatTensor"
    assert torch.ones(3, device="tpu:0").device == x.device


def test_module_to():
    net = nn.Linear(3, 2).tpu()
    assert all(p.is_tpu for p in net.parameters())
    assert net.to("cpu").weight.device.type == "cpu"


def test_current_and_selected():
    assert (torch.tpu.device_count(), torch.tpu.current_device()) == (1, 0)
    for device in (0, -1, "tpu", "tpu:0", torch.device("tpu", 0)):
        torch.tpu.set_device(device)
        with torch.tpu.device(device):
            assert torch.tpu.current_device() == 0
    with torch.tpu.device_of(torch.ones(1).tpu()), torch.tpu.device_of(torch.ones(1)):
        pass


def test_accelerator():
    a = torch.accelerator
    assert a.is_available() and a.device_count() == 1 and a.current_device_index() == 0
    assert a.current_accelerator() == torch.device("tpu")
    a.set_device_index(0)
    with a.device_index(0):
        a.synchronize()
    assert a.memory_allocated() == torch.tpu.memory_allocated()
    assert a.current_stream() == torch.tpu.current_stream()
    a.empty_cache()


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.ones(3, device="tpu:1"),
        lambda: torch.ones(3).to("tpu:1"),
        lambda: torch.empty_strided((2,), (1,), device="tpu:1"),
        lambda: torch.ones(3).tpu(1),
        lambda: torch.tpu.set_device(1),
        lambda: torch.tpu.synchronize("tpu:3"),
        lambda: torch.tpu.memory_allocated(2),
        lambda: torch.accelerator.set_device_index(1),
    ],
)
def test_no_second_device(use):
    with pytest.raises(RuntimeError, match=r"device tpu:\d does not exist: there is one device a process, tpu:0"):
        use()


def test_other_devices_are_refused():
    with pytest.raises(ValueError, match="Expected a tpu device, but got: cpu"):
        torch.tpu.synchronize("cpu")
    with pytest.raises(RuntimeError, match=r"at least two devices, tpu:0 and cpu"):
        torch.ones(3).tpu() + torch.ones(3)


def test_default_device():
    torch.set_default_device("tpu")
    try:
        assert torch.ones(2).is_tpu and torch.tensor([1, 2]).is_tpu and nn.Linear(2, 2).weight.is_tpu
    finally:
        torch.set_default_device(None)
    with torch.device("tpu"):
        assert torch.empty(2).is_tpu
    assert torch.empty(2).is_cpu


def test_properties():
    props = torch.tpu.get_device_properties()
    assert props.name == torch.tpu.get_device_name("tpu:0") and props.total_memory > 0
    assert torch.tpu.get_device_capability() == (0, 0)
    assert torch.tpu.is_bf16_supported() and torch.bfloat16 in torch.tpu.get_amp_supported_dtype()
    assert not torch.tpu._is_in_bad_fork() and torch.tpu.is_initialized()


def test_compile_stats_are_integers():
    stats = torch.tpu.compile_stats()
    wanted = (
        "compiles memory_hits shared_hits disk_hits executions unfused ops_recorded materializations cpu_fallbacks "
        "peak_bytes"
    )
    assert set(wanted.split()) <= set(stats)
    assert all(type(v) is int for v in stats.values())
    before = torch.tpu.compile_stats()
    x = torch.ones(7, 3).tpu()
    (x + x) + x
    after = torch.tpu.compile_stats()
    assert after["executions"] - before["executions"] == 2 and after["ops_recorded"] - before["ops_recorded"] == 2


def test_random_state():
    rng = torch.tpu
    torch.manual_seed(7)
    assert rng.initial_seed() == 7
    rng.manual_seed_all(5)
    assert rng.initial_seed() == 5 and torch.initial_seed() == 7
    state = rng.get_rng_state()
    assert state.dtype == torch.uint8 and state.is_cpu
    rng.seed()
    assert rng.initial_seed() != 5
    rng.set_rng_state(state)
    assert rng.initial_seed() == 5 and torch.equal(rng.get_rng_state_all()[0], state)
    with torch.random.fork_rng(devices=[0], device_type="tpu"):
        torch.manual_seed(1)
        assert rng.initial_seed() == 1
    assert rng.initial_seed() == 5
    with pytest.raises(RuntimeError, match="RNG state"):
        rng.set_rng_state(state[:3])
    own = torch.Generator("tpu").manual_seed(3)
    assert own.device == torch.device("tpu:0") and own.initial_seed() == 3 and rng.initial_seed() == 5
    assert torch.equal(own.clone_state().get_state(), own.get_state())


def test_printing_compiles_nothing():
    x = torch.arange(6.0).view(2, 3).tpu()[:, 1:]
    before = torch.tpu.compile_stats()["compiles"]
    assert repr(x) == "tensor([[1., 2.],\n        [4., 5.]], device='tpu:0')"
    assert repr(torch.arange(3).tpu().bool()) == "tensor([False,  True,  True], device='tpu:0')"
    assert str(nn.Parameter(torch.ones(2).tpu())).startswith("Parameter containing:\ntensor([1., 1.], device='tpu:0'")
    assert f"{torch.tensor(2.5).tpu():.2f}" == "2.50"
    assert torch.tpu.compile_stats()["compiles"] - before <= 1  # .bool()


def test_autocast():
    with torch.autocast("tpu"):
        assert torch.get_autocast_dtype("tpu") == torch.bfloat16 and torch.is_autocast_enabled("tpu")
    with torch.autocast("tpu", dtype=torch.float16):
        pass
    with pytest.warns(UserWarning, match="supported"), torch.autocast("tpu", dtype=torch.float64):
        assert not torch.is_autocast_enabled("tpu")


def test_mode_is_a_setter_and_a_context():
    assert torch_tpu.modes.current_mode() == "strict"
    with torch_tpu.eager_mode("defer") as mode:
        assert torch_tpu.modes.current_mode() == "defer" and repr(mode) == "eager_mode('defer')"
        torch_tpu.eager_mode("debug")
        assert torch_tpu.modes.current_mode() == "debug"
    assert torch_tpu.modes.current_mode() == "strict"
    with pytest.raises(ValueError, match="'strict', 'debug', 'defer', got 'lazy'"):
        torch_tpu.eager_mode("lazy")
