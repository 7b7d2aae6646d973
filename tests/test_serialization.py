"""Pickles and files, and the identities that code written for CUDA relies on."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn


def save(value: object) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
def test_save_and_load(dtype):
    x = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype).tpu()
    file = save({"x": x, "row": x[1], "t": x.t()})
    for where, device in ((None, "tpu"), ("cpu", "cpu"), ("tpu", "tpu"), (torch.device("tpu:0"), "tpu")):
        file.seek(0)
        got = torch.load(file, map_location=where, weights_only=True)
        assert all(t.device.type == device for t in got.values())
        assert torch.equal(got["x"].cpu(), x.cpu()) and got["t"].stride() == (1, 3)
        got["row"].zero_()
        assert not got["x"].cpu()[1].any(), "one storage, saved once"
    file = save(torch.arange(3).to(dtype))
    assert torch.load(file, map_location="tpu").is_tpu


def test_shared_storage_is_saved_once():
    x = torch.zeros(100_000).tpu()
    assert len(save([x, x, x[5:], x.view(10, -1)]).getvalue()) < 410_000


def test_map_location_to_another_index():
    file = save(torch.ones(2).tpu())
    with pytest.raises(RuntimeError, match=r"tpu"):
        torch.load(file, map_location="tpu:1")


def test_load_without_the_backend(python, tmp_path):
    path = str(tmp_path / "x.pt")
    torch.save({"x": torch.arange(3.0).tpu()}, path)
    got = python(
        f"""
        import torch
        print(torch.load({path!r}, map_location="cpu", weights_only=True)["x"].tolist())
        try:
            torch.load({path!r})
        except Exception as error:
            print("tpu" in str(error))
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert got.out == "[0.0, 1.0, 2.0]\nTrue\n"


def test_pickle():
    x = torch.arange(4.0).tpu().requires_grad_()
    y = pickle.loads(pickle.dumps(x))
    assert y.is_tpu and y.requires_grad and torch.equal(y.detach().cpu(), x.detach().cpu())
    generator = torch.Generator("tpu").manual_seed(4)
    assert copy.deepcopy(nn.Parameter(x)).is_tpu
    assert generator.clone_state().initial_seed() == 4


def test_data_takes_a_tensor_of_the_other_device():
    p = nn.Parameter(torch.arange(3.0))
    same = p
    p.data = p.data.to("tpu")
    assert same.is_tpu and p.is_leaf and p.requires_grad
    (p * p).backward(torch.ones(3).tpu())
    assert p.grad.tolist() == [0, 2, 4]
    with pytest.raises(RuntimeError, match=r"incompatible|different device|same device"):
        p.data = torch.zeros(3)
        p.grad = torch.ones(3).tpu()
    t = torch.zeros(2).tpu()
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        t.data = torch.eye(2).to_sparse()


def test_data_keeps_views_apart():
    x = torch.zeros(10, device="tpu")
    y = x.view(2, 5)
    x.data.add_(1)
    assert y.sum().item() == 10
    x.data = x.data + 1
    assert x.cpu().eq(2).all() and y.cpu().eq(1).all()


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 6), nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("mask", torch.ones(3, dtype=torch.bool))


@pytest.mark.parametrize("move", [lambda m: m.to("tpu"), lambda m: m.tpu(), lambda m: m.to("tpu", torch.bfloat16)])
def test_moving_a_module_keeps_its_parameters(move):
    model = Tied()
    weight = model.head.weight
    weight.grad = torch.ones_like(weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    want = weight.detach() - 1
    move(model)
    assert model.head.weight is model.embed.weight is weight and weight.is_tpu and weight.grad.is_tpu
    assert optimizer.param_groups[0]["params"][0] is weight and len(list(model.parameters())) == 1
    optimizer.step()
    torch.testing.assert_close(weight.detach().cpu().float(), want, rtol=2e-2, atol=2e-2)
    model.cpu()
    assert model.head.weight is weight and weight.is_cpu and weight.grad.is_cpu


def test_swapping_module_tensors():
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model = Tied()
        weight = model.head.weight
        model.to("tpu")
        assert model.head.weight is model.embed.weight is weight and weight.is_tpu
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    a, b = torch.ones(2), torch.zeros(3).tpu()
    torch.utils.swap_tensors(a, b)
    assert a.is_tpu and a.shape == (3,) and b.is_cpu


def test_state_dict_and_deepcopy():
    model = Tied().tpu()
    twin = copy.deepcopy(model)
    assert twin.head.weight is twin.embed.weight and twin.head.weight is not model.head.weight and twin.mask.is_tpu
    cpu = Tied()
    cpu.load_state_dict(model.state_dict())
    assert torch.equal(cpu.head.weight.detach(), model.head.weight.detach().cpu())
    twin.load_state_dict(cpu.state_dict())
    file = save(model.state_dict())
    twin.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(twin.head.weight.detach().cpu(), cpu.head.weight.detach())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model.head.weight.grad = torch.ones_like(model.head.weight)
    optimizer.step()
    state = copy.deepcopy(optimizer.state_dict())
    assert state["state"][0]["momentum_buffer"].is_tpu
    optimizer.load_state_dict(torch.load(save(state)))
    assert optimizer.state[model.head.weight]["momentum_buffer"].is_tpu


def test_multiprocessing_queue_sends_a_copy(python, tmp_path):
    program = tmp_path / "queue_program.py"
    program.write_text(
        """
import torch, torch.multiprocessing as mp

def work(inbox, outbox):
    x, p = inbox.get()
    outbox.put((x + x, type(p).__name__, p.requires_grad, p.device.type))
    outbox.close()
    outbox.join_thread()
    inbox.get()

if __name__ == "__main__":
    ctx = mp.get_context("spawn")
    inbox, outbox = ctx.Queue(), ctx.Queue()
    child = ctx.Process(target=work, args=(inbox, outbox))
    child.start()
    inbox.put((torch.arange(3.0).tpu(), torch.nn.Parameter(torch.ones(2).tpu())))
    y, *rest = outbox.get(timeout=100)
    inbox.put(None)
    child.join(60)
    print(y.device, y.tolist(), rest, child.exitcode)
"""
    )
    got = python(f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')")
    assert got.out == "tpu:0 [0.0, 2.0, 4.0] ['Parameter', True, 'tpu'] 0\n", str(got)
