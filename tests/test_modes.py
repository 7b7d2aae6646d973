"""When work is launched: the three modes, and backward in the region of the thread that asked for it."""

import threading

import pytest
import torch
from oracle import launches

import torch_tpu
from torch_tpu.modes import current_mode


def test_strict_launches_each_op():
    x = torch.ones(5, 3).tpu()
    with launches() as count:
        y = x + x
        assert count() == 1
        y.mul_(x)
        assert count() == 2


def test_defer_launches_nothing_until_a_sink():
    x = torch.ones(5, 3).tpu()
    before = torch.tpu.compile_stats()
    with torch_tpu.eager_mode("defer"), launches() as count:
        y = x
        for _ in range(100):
            y = (y + x).mul_(x)
        z = y[1:].t()
        assert count() == 0
        assert z.cpu().sum() == 12 * 101
        assert count() == 1
        y = y + 1
        torch.tpu.synchronize()
        assert count() == 2
    after = torch.tpu.compile_stats()
    assert after["materializations"] - before["materializations"] == 1, "synchronize() is no sink"


def test_leaving_defer_launches():
    x = torch.ones(3).tpu()
    with launches() as count:
        with torch_tpu.eager_mode("defer"):
            y = x + x
        assert count() == 1
    assert y.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("env", "mode"),
    [
        ({}, "strict"),
        ({"TORCH_TPU_LAUNCH_BLOCKING": "1"}, "debug"),
        ({"TORCH_TPU_DEFER_AND_FUSE": "1"}, "defer"),
        ({"TORCH_TPU_DEFER_AND_FUSE": "0"}, "strict"),
    ],
)
def test_environment(python, env, mode):
    clean = {"TORCH_TPU_LAUNCH_BLOCKING": "", "TORCH_TPU_DEFER_AND_FUSE": ""}
    assert python("import torch, torch_tpu.modes as m; print(m.current_mode())", **{**clean, **env}).out == f"{mode}\n"


def test_a_training_step_is_one_launch():
    x = torch.randn(4, 3).tpu()
    w = torch.nn.Parameter(torch.randn(4, 3).tpu())
    want = w.detach().cpu()
    want = want - 0.1 * (2 * want * x.cpu() * x.cpu())
    with torch_tpu.eager_mode("defer"), launches() as count:
        y = w * x
        (y * y).backward(torch.ones_like(y))
        with torch.no_grad():
            w.sub_(w.grad * 0.1)
        w.grad = None
        assert count() == 0
        got = w.detach().cpu()
        assert count() == 1
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


class Seen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, log):
        ctx.log = log
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        ctx.log.append((current_mode(), threading.get_ident()))
        return grad * 2, None


def test_backward_runs_in_the_callers_mode_and_thread(mode):
    log = []

    def work():
        torch_tpu.eager_mode(mode)
        x = torch.ones(3).tpu().requires_grad_()
        y = Seen.apply(x, log)
        y.register_hook(lambda g: log.append((current_mode(), threading.get_ident())))
        y.backward(torch.ones(3).tpu())
        assert x.grad.tolist() == [2, 2, 2]
        assert log == [(mode, threading.get_ident())] * 2
        log.append("done")

    work()
    log.clear()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert log[-1] == "done"


def test_backward_from_another_thread_than_forward():
    x = torch.ones(3).tpu().requires_grad_()
    with torch_tpu.eager_mode("defer"):
        y = x * 3
        result = []
        thread = threading.Thread(target=lambda: (y.backward(torch.ones(3).tpu()), result.append(x.grad.tolist())))
        thread.start()
        thread.join()
    assert result == [[3, 3, 3]]


def test_double_backward_and_reentrant():
    x = torch.full((3,), 2.0).tpu().requires_grad_()
    with torch_tpu.eager_mode("defer"), launches() as count:
        (g,) = torch.autograd.grad(x * x * x, x, torch.ones(3).tpu(), create_graph=True)
        (h,) = torch.autograd.grad(g, x, torch.ones(3).tpu())
        y = torch.utils.checkpoint.checkpoint(lambda t: t * t, x, use_reentrant=True)
        y.backward(torch.ones(3).tpu())
        assert count() == 0
        assert h.tolist() == [12, 12, 12] and x.grad.tolist() == [4, 4, 4]


def test_a_user_may_ask_for_autograds_own_threads():
    x = torch.ones(3).tpu().requires_grad_()
    with torch.autograd.set_multithreading_enabled(True):
        (x * x).backward(torch.ones(3).tpu())
    assert x.grad.tolist() == [2, 2, 2]


def test_debug_mode_waits():
    with torch_tpu.eager_mode("debug"):
        x = torch.ones(300, 300).tpu()
        x + x
        assert torch_tpu._C.idle()


def test_float64_rounds_after_each_operator(mode):
    third = torch.tensor(1 / 3, dtype=torch.float64)
    assert (third.tpu() * 3 - 1).item() == 0
    x, y, z = torch.rand(3, 500, dtype=torch.float64)
    got = (x.tpu() * y.tpu() + z.tpu()).mul(x.tpu()).sub_(y.tpu())
    assert torch.equal(got.cpu(), (x * y + z).mul(x).sub_(y))
