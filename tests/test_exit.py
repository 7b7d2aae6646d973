"""The end of a program, at odd moments: none hangs, crashes or complains."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

PROGRAMS = {
    "live tensors": """
        keep = [torch.ones(4).tpu() + i for i in range(50)]
    """,
    "pending work": """
        torch_tpu.eager_mode("defer")
        keep = torch.ones(4).tpu()
        for _ in range(1000):
            keep = keep + keep * 0
    """,
    "a reference cycle": """
        class Node: pass
        a, b = Node(), Node()
        a.other, b.other, a.x = b, a, torch.ones(3).tpu() + 1
    """,
    "work in atexit": """
        import atexit
        x = torch.ones(3).tpu()
        atexit.register(lambda: print((x + x).tolist(), flush=True))
    """,
    "a finalizer": """
        class Last:
            x = torch.ones(3).tpu()
            def __del__(self):
                try:
                    print((self.x + self.x).tolist(), flush=True)
                except Exception:
                    pass
        last = Last()
    """,
    "a module global": """
        import types, sys
        module = types.ModuleType("holder")
        module.x = torch.ones(3).tpu() * 2
        sys.modules["holder"] = module
    """,
    # Daemon threads in the middle of an operator abort the exit of plain PyTorch too; here they wait for work.
    "daemon threads": """
        import queue, threading
        def work(mode, inbox, ready):
            torch_tpu.eager_mode(mode)
            x = torch.ones(64, 64).tpu()
            for _ in range(50):
                x = (x * x) - x
            ready.set()
            inbox.get()
        for mode in ("strict", "defer", "debug"):
            ready = threading.Event()
            threading.Thread(target=work, args=(mode, queue.Queue(), ready), daemon=True).start()
            ready.wait()
    """,
    "a thread that outlives main": """
        import threading, time
        def work():
            time.sleep(0.3)
            print((torch.ones(3).tpu() + 1).tolist(), flush=True)
        threading.Thread(target=work).start()
    """,
    "sys.exit in the middle": """
        torch_tpu.eager_mode("defer")
        x = torch.ones(3).tpu() + 1
        raise SystemExit(0)
    """,
    "never used": "",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_exit(python, name):
    head = "import torch, torch_tpu\n"
    got = python(head + textwrap.dedent(PROGRAMS[name]), timeout=60)
    assert got.err == "", got.err


def test_an_exception_at_top_level(python):
    got = python(
        """
        import torch, torch_tpu
        torch_tpu.eager_mode("defer")
        x = torch.ones(3).tpu() + 1
        raise KeyError("mine")
        """,
        code_expected=1,
    )
    assert got.err.rstrip().endswith("KeyError: 'mine'")


@pytest.mark.parametrize("mode", ["strict", "defer"])
def test_interrupt(mode):
    """Ctrl-C becomes KeyboardInterrupt, after which the device works."""
    code = f"""
        import signal, sys, torch, torch_tpu
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background has not
        torch_tpu.eager_mode({mode!r})
        x = torch.ones(64, 64).tpu()
        (x + x).cpu()
        print("ready", flush=True)
        try:
            while True:
                x = (x * x) + x * 0
                if {mode == "defer"}:
                    torch.tpu.synchronize()
        except KeyboardInterrupt:
            print("interrupted", (torch.ones(3).tpu() + x[0, :3] * 0 + 1).tolist(), flush=True)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.4)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0 and out == "interrupted [2.0, 2.0, 2.0]\n", (
        f"{process.returncode} {out} {err[-3000:]}"
    )
