"""Several threads use the device."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import torch_tpu
from torch_tpu.modes import current_mode


def compute(where: str, seed: int) -> torch.Tensor:
    x = torch.arange(64.0).view(8, 8).to(where) * seed
    x.add_(torch.linspace(0, 1, 8).to(where))
    y = (x.t() * x).requires_grad_()
    z = (y * y)[1:]
    z.backward(torch.ones(7, 8).to(where))
    y.detach()[::2].add_(seed)
    return y.detach() + y.grad


@pytest.mark.parametrize("modes", [("strict",), ("defer",), ("strict", "debug", "defer")])
def test_many_threads(modes):
    def work(job: int) -> torch.Tensor:
        with torch_tpu.eager_mode(modes[job % len(modes)]):
            return compute("tpu", job % 5).cpu()

    want = [compute("cpu", seed) for seed in range(5)]
    with ThreadPoolExecutor(6) as pool:
        for job, got in enumerate(pool.map(work, range(60))):
            torch.testing.assert_close(got, want[job % 5])


def test_values_cross_threads_while_deferred():
    torch_tpu.eager_mode("defer")
    x = torch.ones(4).tpu() + 1
    results = []

    def work():
        with torch_tpu.eager_mode("defer"):
            y = x * 3
            results.append(y)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    x.add_(1)
    assert all(y.tolist() == [6] * 4 for y in results), "values of threads that have ended"
    assert x.tolist() == [3] * 4


def test_one_tensor_written_by_many_threads():
    x = torch.zeros(4).tpu()
    lock = threading.Lock()

    def work(mode):
        with torch_tpu.eager_mode(mode):
            for _ in range(50):
                with lock:
                    x.add_(1)

    threads = [threading.Thread(target=work, args=(m,)) for m in ("strict", "defer", "defer", "debug")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert x.tolist() == [200] * 4


def test_modes_are_per_thread():
    torch_tpu.eager_mode("defer")
    seen = []
    thread = threading.Thread(target=lambda: seen.append(current_mode()))
    thread.start()
    thread.join()
    assert seen == ["strict"] and current_mode() == "defer"
