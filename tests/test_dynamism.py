"""Tensors that grow in a loop: few programs, the same results, and nothing of the padding in sight."""

import copy
import gc
import io
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fuzz.growing import difference
from torch.testing import assert_close

import torch_tpu
from torch_tpu.modes import current_dynamism

STEPS = 40
FEW = 12  # compiles of one operator for 40 sizes: two or three a size of memory, and the first three


@contextmanager
def compiles() -> Iterator[Callable[[], int]]:
    start = torch.tpu.compile_stats()["compiles"]
    yield lambda: torch.tpu.compile_stats()["compiles"] - start


def grown(device: str, shape: tuple[int, ...], dim: int, steps: int = STEPS, dtype: torch.dtype = torch.float32) -> Any:
    """The tensors of a loop that joins one step after the other, each launched before the next."""
    x = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape).to(dtype).to(device)
    step = x.narrow(dim, 0, 1) * 3
    for _ in range(steps):
        x = torch.cat([x, step], dim)
        if device == "tpu":
            torch.tpu.synchronize()
        yield x


def same_in_loop(
    fn: Callable[[torch.Tensor], Any],
    *,
    shape: tuple[int, ...] = (1, 3),
    dim: int = 0,
    few: int | None,
    level: str = "auto",
    **kind: Any,
) -> None:
    """``fn`` of a growing tensor gives what it gives on the CPU; it takes fewer than ``few`` programs beside joins."""
    with torch_tpu.dynamism(level):
        for _ in grown("tpu", shape, dim, **kind):  # programs of the joins
            pass
        pairs = []
        with compiles() as count:
            for x, want in zip(grown("tpu", shape, dim, **kind), grown("cpu", shape, dim, **kind), strict=True):
                got = fn(x)
                torch.tpu.synchronize()
                pairs.append((got, fn(want)))
                pairs.append((x, want))  # what fn wrote
            made = count()
        for got, want in pairs:
            assert_close(torch.utils._pytree.tree_map(lambda t: t.cpu(), got), want, equal_nan=True)
        assert few is None or made <= few, f"{made} programs for {STEPS} sizes"


@pytest.mark.parametrize(("shape", "dim"), [((1,), 0), ((2, 1), 1), ((2, 1, 3), 1), ((1, 2, 1, 4), 2), ((1, 2), 0)])
def test_joining_takes_few_programs(mode: str, shape: tuple[int, ...], dim: int) -> None:
    dtype = torch.int16  # used by no other test, so that the programs are new
    with compiles() as count:
        for x, want in zip(grown("tpu", shape, dim, dtype=dtype), grown("cpu", shape, dim, dtype=dtype), strict=True):
            assert (x.shape, x.stride(), x.untyped_storage().nbytes()) == (
                want.shape,
                want.stride(),
                want.untyped_storage().nbytes(),
            )
            assert_close(x.cpu(), want)
        # Beside the joins, each mode has the product that makes a step.
        assert count() <= FEW


def test_off_takes_a_program_a_size() -> None:
    with torch_tpu.dynamism("off"), compiles() as count:
        for _ in grown("tpu", (7, 1), 1):
            pass
        assert count() >= STEPS
    with compiles() as count:
        for _ in grown("tpu", (11, 1), 1):
            pass
        assert count() <= FEW


def test_two_hundred_elements(mode: str) -> None:
    """The loop of the issue, read each step."""
    one = torch.ones(1, dtype=torch.int8).tpu()
    x = one
    with compiles() as count:
        for i in range(200):
            x = torch.cat([x, one])
            assert x[-1].item() == 1 and x.cpu().shape == (i + 2,)
        assert count() <= 12


def test_read_in_the_end_is_one_program() -> None:
    step = [torch.full((1,), float(i)).tpu() for i in range(5)]
    with torch_tpu.eager_mode("defer"), compiles() as count:
        x = step[0]
        for i in range(1, 200):
            x = torch.cat([x, step[i % 5]])
        assert x.tolist() == [float(i % 5) for i in range(200)]
        assert count() == 1


def test_tensors_that_do_not_grow_are_not_padded() -> None:
    a, b = torch.ones(5, 2000).tpu(), torch.ones(3, 2000).tpu()
    parts = [b[:n] for n in (1, 2, 3, 1, 2, 3)]
    gc.collect()  # what others left is not to go meanwhile
    for part in parts:
        before = torch.tpu.memory_allocated()
        joined = torch.cat([a, part])
        taken = torch.tpu.memory_allocated() - before
        assert 0 <= taken - joined.untyped_storage().nbytes() < 1000
        del joined


def test_padding_is_counted_as_memory() -> None:
    x = list(grown("tpu", (1, 5), 0, 20))[-1]
    before = torch.tpu.memory_allocated()
    padded = x.untyped_storage().nbytes()
    del x
    assert before - torch.tpu.memory_allocated() > padded


EXACT: dict[str, Callable[[torch.Tensor], Any]] = {
    "pointwise": lambda x: (x * 2 + 1).exp() / x.abs(),
    "broadcast": lambda x: x * x[:1] + torch.arange(3.0).to(x.device),
    "with itself transposed": lambda x: x.t() * x.t(),
    "expanded": lambda x: x + x[:1, :1].expand_as(x),
    "comparison": lambda x: torch.where(x > 2, x, -x),
    "maximum": lambda x: (x.amax(0), x.max(), x.min(1)),
    "position": lambda x: (x.argmax(0), x.argmin(), x.max(0)),
    "truth": lambda x: ((x > 2).any(), (x > 2).all(0), x.count_nonzero()),
    "integer sums": lambda x: (x.to(torch.int64).sum(), x.to(torch.int32).sum(0)),
    "last": lambda x: x[-1] * 2,
    "first rows": lambda x: x[:2] + x[-2:],
    "in place": lambda x: x.add_(1).mul_(x[0].clone()),
    "in place, transposed": lambda x: x.t().mul_(2),
    "a row in place": lambda x: x[-1].fill_(7),
    "an element in place": lambda x: x[1, 1].zero_(),
    "clone": lambda x: x.clone(),
    "conversion": lambda x: x.to(torch.int32),
    "filled": lambda x: (torch.ones_like(x), torch.full_like(x, 3), x.clone().fill_(2), x.clone().zero_()),
    "triangles": lambda x: (x.tril(), x.triu(1)),
}


@pytest.mark.parametrize("name", EXACT)
def test_few_programs_where_results_are_exact(mode: str, name: str) -> None:
    same_in_loop(EXACT[name], few=20)


ROUNDED: dict[str, Callable[[torch.Tensor], Any]] = {
    "sum": lambda x: (x.sum(0), x.sum()),
    "beside it": lambda x: (x.sum(1), x.mean(1), x.softmax(1)),
    "softmax": lambda x: (x.softmax(0), x.t().log_softmax(1)),
    "matmul": lambda x: x @ torch.ones(3, 5).to(x.device),
    "matmul over it": lambda x: x.t() @ x,
    "bmm": lambda x: x[None] @ x.t()[None],
    "addmm": lambda x: torch.addmm(torch.ones(5).to(x.device), x, torch.ones(3, 5).to(x.device)),
}


@pytest.mark.parametrize("level", ["auto", "all"])
@pytest.mark.parametrize("name", ROUNDED)
def test_sums_of_floats(mode: str, name: str, level: str) -> None:
    same_in_loop(ROUNDED[name], few=20 if level == "all" else None, level=level)


def with_another_storage(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.untyped_storage().resize_(y.untyped_storage().nbytes() - 4)
    return y.as_strided((2,), (1,), y.untyped_storage().nbytes() // 4 - 2)


OTHERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "flat": lambda x: x.reshape(-1) + 1,
    "flat in place": lambda x: x.view(-1)[1:].add_(1),
    "steps": lambda x: (x[::2], x.unfold(0, 2, 1), x.flip(0)),
    "bits": lambda x: x.view(torch.int32) + 1,
    "bytes": lambda x: x.view(torch.uint8).clone(),
    "diagonal": lambda x: x.diagonal().clone(),
    "sort": lambda x: x.sort(dim=0, stable=True),
    "cumsum": lambda x: x.cumsum(0),
    "index": lambda x: x[torch.tensor([0, -1])],
    "variance": lambda x: (x.var(0), x.mean(), x.norm()),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 1), 1).clone(),
    "cross": lambda x: torch.linalg.cross(x, x.flip(1)),
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "set_": lambda x: torch.empty(0, device=x.device).set_(x),
    "resized": lambda x: x.clone().resize_(len(x) - 1, 3),
    "resized storage": with_another_storage,
    "out": lambda x: torch.mul(x, 2, out=torch.empty_like(x)),
    "foreach": lambda x: torch._foreach_mul([x, x[:1]], 2.0),
    "nothing": lambda x: x[len(x) :],
}


@pytest.mark.parametrize("name", OTHERS)
def test_all_else_sees_no_padding(mode: str, name: str) -> None:
    same_in_loop(OTHERS[name], few=None, steps=10)


@pytest.mark.parametrize("dim", [0, 1])
def test_all_else_sees_no_padding_inside(dim: int) -> None:
    for name, fn in {**EXACT, **ROUNDED, **OTHERS}.items():
        if name in ("matmul", "addmm", "cross", "broadcast", "expanded", "bytes", "bits", "resized", "steps", "index"):
            continue  # for rows of three
        same_in_loop(fn, shape=(3, 3), dim=dim, few=None, steps=6)


def test_prepended_and_in_the_middle(mode: str) -> None:
    step = torch.tensor([[1, 2], [3, 4]])
    for order in ("yx", "yxy", "xx", "xyx"):
        x, want = step.tpu(), step
        for i in range(6 if order.count("x") > 1 else 20):
            parts = {"x": x, "y": (step + i).tpu()}
            wanted = {"x": want, "y": step + i}
            x, want = torch.cat([parts[c] for c in order], 1), torch.cat([wanted[c] for c in order], 1)
            assert_close(x.cpu(), want)


def test_shrinks_and_grows_again(mode: str) -> None:
    x, want = torch.arange(3).tpu(), torch.arange(3)
    with compiles() as count:
        for i in range(120):
            x, want = torch.cat([x, x[:2]]), torch.cat([want, want[:2]])
            if i % 20 == 19:
                x, want = x[4:7].clone(), want[4:7].clone()
            assert x.tolist() == want.tolist()
        assert count() <= 45


def test_who_takes_the_padding_away_stops_it() -> None:
    """A tensor that each step is read in an order of elements that padding cannot give is not padded for long."""
    x = torch.ones(2, 1, dtype=torch.uint8).tpu()
    for _ in range(12):
        x = torch.cat([x, x[:, :1]], 1)
        x.view(-1).add_(1)
    before = torch.tpu.memory_allocated()
    size = x.untyped_storage().nbytes()
    del x
    assert before - torch.tpu.memory_allocated() == size


@pytest.mark.parametrize("level", ["auto", "all"])
@pytest.mark.parametrize("kind", ["fused", "masked", "written out"])
def test_a_cache_of_keys_and_values(mode: str, kind: str, level: str) -> None:
    draw = torch.Generator().manual_seed(3)
    weights = [torch.randn(16, 16, generator=draw) / 4 for _ in range(3)]
    table = torch.randn(20, 16, generator=draw)

    def generate(device: str) -> tuple[list[int], torch.Tensor]:
        q, k, v = (w.to(device) for w in weights)
        words = table.to(device)
        keys = values = torch.zeros(1, 2, 0, 8, device=device)
        seen = torch.ones(1, 0, dtype=torch.bool, device=device)
        token, tokens = torch.tensor([[1]], device=device), []
        for _ in range(STEPS):
            x = words[token]
            query, key, value = ((x @ w).view(1, 1, 2, 8).transpose(1, 2) for w in (q, k, v))
            keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
            if kind == "written out":
                out = ((query @ keys.transpose(-1, -2)) / 3).softmax(-1) @ values
            else:
                seen = torch.cat([seen, torch.ones(1, 1, dtype=torch.bool, device=device)], 1)
                mask = seen[:, None, None, :] if kind == "masked" else None
                out = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
            scores = (x + out.transpose(1, 2).reshape(1, 1, 16)) @ words.t()
            token = scores[:, -1].argmax(-1, keepdim=True)
            tokens.append(token.item())
        return tokens, scores

    with torch_tpu.dynamism(level), compiles() as count:
        tokens, scores = generate("tpu")
        made = count()
    wanted, want = generate("cpu")
    assert tokens == wanted
    assert_close(scores.cpu(), want, rtol=1e-4, atol=1e-4)
    if level == "all":
        assert made <= 60, f"{made} programs for {STEPS} tokens"


def test_gradients(mode: str) -> None:
    def gradients(device: str) -> list[torch.Tensor]:
        w = torch.linspace(-1, 1, 4)[None].to(device).requires_grad_()
        x, found = torch.ones(1, 4).to(device), []
        for i in range(25):
            x = torch.cat([x.detach(), (w * (i + 1)).tanh()])
            w.grad = None
            (x * w + x.exp()).amax(0).sum().backward()
            found.append(w.grad.cpu())
        return found

    for level in ("auto", "all"):
        with torch_tpu.dynamism(level):
            assert_close(gradients("tpu"), gradients("cpu"))


def test_gradients_through_the_whole_loop(mode: str) -> None:
    def gradients(device: str) -> list[torch.Tensor]:
        w = torch.linspace(-1, 1, 3).to(device).requires_grad_()
        x, sums = w[None] * 1, []
        for i in range(12):
            x = torch.cat([x, (x[-1:] * w).tanh() + i])
            sums.append(x.sum().detach().cpu())
        x.square().sum().backward()
        return [w.grad.cpu(), *sums]

    assert_close(gradients("tpu"), gradients("cpu"), rtol=1e-3, atol=1e-3)  # large parts cancel


def test_memory_is_given_away() -> None:
    """An in-place operator of a padded tensor needs no second buffer."""
    x = list(grown("tpu", (1, 1000), 0, 20))[-1]
    x.add_(1)
    torch.tpu.reset_peak_memory_stats()
    before = torch.tpu.memory_allocated()
    x.add_(1)
    assert torch.tpu.memory_allocated() == before == torch.tpu.max_memory_allocated()


def test_saving_and_loading() -> None:
    x = list(grown("tpu", (1, 2), 0, 9))[-1]
    file = io.BytesIO()
    torch.save({"x": x, "last": x[-1]}, file)
    loaded = torch.load(io.BytesIO(file.getvalue()), map_location="cpu")
    assert_close(loaded["x"], x.cpu())
    assert loaded["x"].untyped_storage().nbytes() == 10 * 2 * 4
    assert loaded["last"].untyped_storage().data_ptr() == loaded["x"].untyped_storage().data_ptr()


def test_torch_compile() -> None:
    compiled = torch.compile(lambda x: (x * 2).sum(0) + x[-1], backend="tpu", dynamic=False)
    for x, want in zip(grown("tpu", (1, 3), 0, 6), grown("cpu", (1, 3), 0, 6), strict=True):
        assert_close(compiled(x).cpu(), (want * 2).sum(0) + want[-1])


def test_padded_values_are_read_rightly_once_it_is_off(mode: str) -> None:
    x, want = list(grown("tpu", (2, 1), 1, 9))[-1], list(grown("cpu", (2, 1), 1, 9))[-1]
    with torch_tpu.dynamism("off"):
        assert_close(torch.cat([x * 2, x], 1).cpu(), torch.cat([want * 2, want], 1))


def test_from_another_thread() -> None:
    import threading

    x, found = list(grown("tpu", (1, 3), 0, 9))[-1], []
    with torch_tpu.dynamism("off"):
        thread = threading.Thread(target=lambda: found.extend([current_dynamism(), (x + 1).cpu()]))
        thread.start()
        thread.join()
        assert current_dynamism() == "off"
    assert found[0] == "auto"
    assert_close(found[1], list(grown("cpu", (1, 3), 0, 9))[-1] + 1)


PROGRAM = """
import torch, torch_tpu
x = one = torch.ones(1).tpu()
for _ in range({steps}):
    x = torch.cat([x, one])
    assert (x * 2).cpu().shape == x.shape
stats = torch.tpu.compile_stats()
print(stats["compiles"], stats["disk_hits"])
"""


def test_another_process_finds_the_programs(python: Any, tmp_path: Path) -> None:
    env = {"TORCH_TPU_CACHE_DIR": str(tmp_path / "cache"), "TORCH_TPU_SHARED_DIR": ""}
    made, none = map(int, python(PROGRAM.format(steps=60), **env).out.split())
    assert made <= 20 and none == 0
    again, found = map(int, python(PROGRAM.format(steps=50), **env).out.split())
    assert again == 0 and found <= made


def test_environment(python: Any) -> None:
    code = "import torch_tpu.modes as m; print(m.current_dynamism())"
    for value, level in {"off": "off", "auto": "auto", "all": "all", "": "auto"}.items():
        assert python(code, TORCH_TPU_DYNAMISM=value).out == f"{level}\n"
    said = python(code, TORCH_TPU_DYNAMISM="on", code_expected=1).err
    assert 'TORCH_TPU_DYNAMISM is "on", expected "off", "auto" or "all"' in said


def test_the_setter() -> None:
    assert current_dynamism() == "auto"
    with torch_tpu.dynamism("off") as level:
        assert repr(level) == "dynamism('off')" and current_dynamism() == "off"
        torch_tpu.dynamism("all")
        assert current_dynamism() == "all"
    assert current_dynamism() == "auto"
    with pytest.raises(ValueError, match="'off', 'auto', 'all', got 'on'"):
        torch_tpu.dynamism("on")


# Deferred programs fuse, so that sums of floats may differ there whatever the sizes; and an older compiler of CPU
# plugins fuses across what is kept apart.
KEEPS_APART = "xla_cpu_pjrt" not in os.environ.get("TORCH_TPU_PLUGIN", "")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("first", "mode", "level"),
    [
        (0, "strict", "auto" if KEEPS_APART else "all"),
        (40, "debug", "all"),
        (60, "defer", "all"),
        (90, "strict", "all"),
    ],
)
def test_random_loops(first: int, mode: str, level: str) -> None:
    torch_tpu.eager_mode(mode)
    for seed in range(first, first + (30 if level == "auto" else 12)):
        found = difference(seed, level)
        assert found is None, f"seed {seed}, {mode}: {found}"
