"""After the device was used, a forked child either stays on the CPU or is told what is wrong; nothing hangs."""

HEAD = """
    import gc, os, signal, sys, time, torch, torch_tpu

    def child(work):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                message = str(work())
            except Exception as error:
                message = f"{type(error).__name__}: {error}"
            os.write(write, message.encode())
            os._exit(0)
        deadline = time.monotonic() + 30
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                sys.exit("the child hangs")
            time.sleep(0.02)
        return os.read(read, 4096).decode()
"""


def test_child_that_touches_the_device(python):
    got = python(
        HEAD
        + """
    import re
    x = torch.ones(3).tpu() + 1
    for mode in ("strict", "debug", "defer"):
        with torch_tpu.eager_mode(mode):
            x = x + x if mode == "defer" else x
            for work in (
                lambda: (x + x).tolist(), lambda: torch.ones(5, 7).tpu(), lambda: x.cpu(),
                lambda: torch.tpu.synchronize(), lambda: torch.tpu.init(), lambda: (x - x * 3).cpu(),
            ):
                message = child(work)
                assert re.match("RuntimeError: .*(fork|spawn|re-?initiali)", message), message
    print(child(lambda: (torch.tpu._is_in_bad_fork(), torch.tpu.is_initialized(), torch.manual_seed(1).initial_seed())))
    print(x.tolist(), torch.tpu._is_in_bad_fork())
    """
    )
    assert got.out == "(True, False, 1)\n[4.0, 4.0, 4.0] False\n"


def test_child_may_free_what_it_inherited(python):
    got = python(
        HEAD
        + """
    held = [torch.ones(100).tpu() + i for i in range(50)]
    torch_tpu.eager_mode("defer")
    pending = held[0] + held[1]

    def free():
        global held, pending
        held = pending = None
        gc.collect()
        return "freed"

    print(child(free), pending.tolist()[:1])
    """
    )
    assert got.out == "freed [3.0]\n"


def test_child_of_a_process_whose_other_thread_compiles(python):
    got = python(
        HEAD
        + """
    import threading
    with torch_tpu.eager_mode("defer"):
        x = torch.randn(5, 5).tpu()
    begun, made = threading.Event(), []

    def compiles():
        torch_tpu.eager_mode("defer")
        made.append(torch.linalg.eigvals(x).abs())
        begun.set()
        made.append(made[0].tolist())

    thread = threading.Thread(target=compiles)
    thread.start()
    begun.wait()
    time.sleep(0.3)
    for work in (
        lambda: made[0] + 1, lambda: made[0].cpu(), lambda: x.sin(), lambda: x[1:].clone(), lambda: torch.ones(7).tpu(),
        lambda: torch.empty(3, 11, device="tpu"), lambda: torch.tpu.synchronize(), lambda: torch.tpu.Event().record(),
    ):
        message = child(work)
        assert "fork" in message, message
    print(child(lambda: torch_tpu.eager_mode("strict") and "set"))
    thread.join()
    """
    )
    assert got.out == "set\n"


def test_fork_before_the_device_starts(python):
    got = python(
        HEAD
        + """
    print(child(lambda: (torch.ones(2).tpu() * 2).tolist()), (torch.ones(2).tpu() * 3).tolist())
    """
    )
    assert got.out == "[2.0, 2.0] [3.0, 3.0]\n"


def test_loader_workers_stay_on_the_cpu(python):
    got = python(
        """
    import torch, torch_tpu

    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 12

        def __getitem__(self, i):
            return torch.tensor(float(i * i))

    torch_tpu.eager_mode("defer")
    touched = torch.ones(3).tpu() + 1
    loader = torch.utils.data.DataLoader(
        Squares(), batch_size=4, num_workers=2, multiprocessing_context="fork", pin_memory=False
    )
    for _ in range(2):
        got = [v for batch in loader for v in (batch.tpu() * 2).tolist()]
        assert got == [2.0 * i * i for i in range(12)], got
    print(touched.tolist())
    """
    )
    assert got.out == "[2.0, 2.0, 2.0]\n"


def test_forked_pool_of_processes(python):
    got = python(
        """
    import multiprocessing, torch
    x = torch.ones(3).tpu() + 1

    def double(i):
        return 2 * i

    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(double, range(4)))
    print(x.tolist())
    """
    )
    assert got.out == "[0, 2, 4, 6]\n[2.0, 2.0, 2.0]\n"
