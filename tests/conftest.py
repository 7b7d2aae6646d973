"""Fixtures of all tests."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

# Tests count compiles: a cache of earlier runs would change them.
os.environ.setdefault("TORCH_TPU_CACHE_DIR", "")

import pytest
import torch
from ledger import ABORTS_OF, KNOWN_FAILURES, KNOWN_FAILURES_OF

import torch_tpu
from torch_tpu.modes import current_dynamism, current_mode


@pytest.fixture(autouse=True)
def same_start() -> Iterator[None]:
    """Each test starts from the same seed, and leaves modes and the memory limit as they were."""
    torch.manual_seed(0)
    mode, level, limit = current_mode(), current_dynamism(), torch.tpu.get_memory_limit()
    yield
    torch_tpu.eager_mode(mode)
    torch_tpu.dynamism(level)
    torch.tpu.set_memory_limit(limit)


@pytest.fixture(params=["strict", "debug", "defer"])
def mode(request: pytest.FixtureRequest) -> str:
    """The test runs once in each mode."""
    torch_tpu.eager_mode(request.param)
    return request.param


class Finished:
    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def __str__(self) -> str:
        return f"exit code {self.code}\n{self.out[-3000:]}\n{self.err[-6000:]}"


SLOWER = 5 if "TPU_SANITIZED" in os.environ else 1  # a sanitizer's build


@pytest.fixture
def python() -> Callable[..., Finished]:
    """``python(code, **env)`` runs a program in a new interpreter, which must end well and in time."""

    def run(code: str, *, code_expected: int = 0, timeout: float = 120, **env: str) -> Finished:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=timeout * SLOWER,
        )
        result = Finished(done)
        assert result.code == code_expected, str(result)
        return result

    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the ledger's tests; a test that the ledger names must exist where its file was collected whole."""
    plugin = os.environ.get("TORCH_TPU_PLUGIN", "")
    known = dict(KNOWN_FAILURES)
    for name, failures in KNOWN_FAILURES_OF.items():
        known |= failures if name in plugin else {}
    aborts = {test: reason for name, tests in ABORTS_OF.items() if name in plugin for test, reason in tests.items()}
    for item in items:
        if reason := known.get(item.nodeid):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        if reason := aborts.get(item.nodeid):
            item.add_marker(pytest.mark.skip(reason=reason))
