"""Collectives of the backend tpu_dist, on processes of this machine, against Gloo on CPU tensors."""

import os
import signal
import time
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from oracle import launches
from ranks import run, start
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import torch_tpu

Op = dist.ReduceOp
GLOO_HAS = [torch.int8, torch.int32, torch.int64, torch.uint8]
GLOO_HAS += [torch.float32, torch.float64, torch.bfloat16, torch.float16]
GLOO_LACKS = [torch.int16, torch.uint16, torch.uint32]


def sample(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Numbers of this rank, small enough to be exact in all dtypes."""
    random = torch.Generator().manual_seed(7 * dist.get_rank() + seed)
    return torch.randint(0 if dtype == torch.uint8 else -3, 4, shape, generator=random).to(dtype)


def same(collective: Callable[..., list[torch.Tensor]], *arguments: object) -> None:
    """The device gives what Gloo gives on CPU tensors."""
    for got, want in zip(collective("tpu", *arguments), collective("cpu", *arguments), strict=True):
        assert got.device.type == "tpu" and got.dtype == want.dtype
        torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0)


def all_reduce(device: str, dtype: torch.dtype, op: Op.RedOpType) -> list[torch.Tensor]:
    x = sample((3, 5), dtype).to(device)
    dist.all_reduce(x, op)
    return [x]


def reductions() -> None:
    for dtype in GLOO_HAS:
        bits = [] if dtype.is_floating_point else [Op.BAND, Op.BOR, Op.BXOR]
        for op in [Op.SUM, Op.MIN, Op.MAX, Op.PRODUCT, *bits]:
            same(all_reduce, dtype, op)
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in GLOO_LACKS:
        for op, want in [(Op.SUM, sum(range(size))), (Op.MAX, size - 1), (Op.MIN, 0)]:
            x = torch.tensor([rank], dtype=dtype).tpu()
            dist.all_reduce(x, op)
            assert x.dtype == dtype and x.tolist() == [want]
    for op, want in [(Op.SUM, True), (Op.MIN, False), (Op.PRODUCT, False), (Op.BOR, True)]:
        x = torch.tensor([rank == 0, False]).tpu()
        dist.all_reduce(x, op)
        assert x.dtype == torch.bool and x.tolist() == [want, False]
    x = torch.full((2,), 1.5 + rank).tpu()
    dist.all_reduce(x, Op.AVG)
    assert x.tolist() == [1.5 + (size - 1) / 2] * 2
    z = torch.full((4,), 1 + 2j * rank).tpu()
    dist.all_reduce(z)
    assert z.tolist() == [complex(size, sum(range(size)) * 2)] * 4


def broadcast(device: str, dtype: torch.dtype, root: int) -> list[torch.Tensor]:
    x = sample((2, 3), dtype).to(device)
    dist.broadcast(x, root)
    return [x]


def all_gather(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    parts = [torch.empty(2, 3, dtype=dtype, device=device) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, sample((2, 3), dtype).to(device))
    return parts


def all_gather_into_tensor(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    out = torch.empty(2 * dist.get_world_size(), 3, dtype=dtype, device=device)
    dist.all_gather_into_tensor(out, sample((2, 3), dtype).to(device))
    return [out]


def gather(device: str, dtype: torch.dtype, root: int) -> list[torch.Tensor]:
    size = dist.get_world_size() if dist.get_rank() == root else 0
    parts = [torch.empty(2, 3, dtype=dtype, device=device) for _ in range(size)]
    dist.gather(sample((2, 3), dtype).to(device), parts or None, dst=root)
    return parts


def scatter(device: str, dtype: torch.dtype, root: int) -> list[torch.Tensor]:
    out = torch.empty(2, 3, dtype=dtype, device=device)
    size = dist.get_world_size() if dist.get_rank() == root else 0
    dist.scatter(out, [sample((2, 3), dtype, i).to(device) for i in range(size)] or None, src=root)
    return [out]


def movements() -> None:
    root = dist.get_world_size() - 1
    for dtype in [*GLOO_HAS, torch.complex64]:
        same(broadcast, dtype, root)
        same(all_gather, dtype)
        same(all_gather_into_tensor, dtype)
        if dtype != torch.complex64:  # which Gloo itself does not gather
            same(gather, dtype, root)
            same(scatter, dtype, root)
    for dtype in [*GLOO_LACKS, torch.bool]:
        x = torch.tensor([dist.get_rank(), 1]).to(dtype).tpu()
        dist.broadcast(x, root)
        assert x.dtype == dtype and x.tolist() == torch.tensor([root, 1]).to(dtype).tolist()


def reduce_scatter_tensor(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    out = torch.empty(2, 3, dtype=dtype, device=device)
    dist.reduce_scatter_tensor(out, sample((2 * dist.get_world_size(), 3), dtype).to(device))
    return [out]


def scattered_sums() -> None:
    size, rank = dist.get_world_size(), dist.get_rank()
    for dtype in (torch.float32, torch.int64, torch.bfloat16):
        same(reduce_scatter_tensor, dtype)
    out = torch.empty(2).tpu()
    dist.reduce_scatter(out, [torch.full((2,), float(10 * i + rank)).tpu() for i in range(size)])
    assert out.tolist() == [10.0 * rank * size + sum(range(size))] * 2
    x = torch.full((2,), float(rank + 1)).tpu()
    dist.reduce(x, dst=0)
    assert x.tolist() == [sum(range(1, size + 1)) if rank == 0 else rank + 1] * 2


def all_to_all_single(device: str, dtype: torch.dtype, splits: list[int] | None) -> list[torch.Tensor]:
    x = sample((sum(splits) if splits else 2 * dist.get_world_size(), 3), dtype).to(device)
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x, splits, splits)
    return [out]


def exchanges() -> None:
    size, rank = dist.get_world_size(), dist.get_rank()
    for dtype in (torch.float32, torch.int64):
        same(all_to_all_single, dtype, None)
        same(all_to_all_single, dtype, [i + rank for i in range(size)])  # none from rank 0 to itself
    outs = [torch.empty(rank + 1).tpu() for _ in range(size)]
    dist.all_to_all(outs, [torch.full((i + 1,), float(10 * rank + i)).tpu() for i in range(size)])
    assert [o.tolist() for o in outs] == [[10.0 * i + rank] * (rank + 1) for i in range(size)]


def views() -> None:
    """Operands and results may be any views; what lies between their elements stays."""
    size, rank = dist.get_world_size(), dist.get_rank()
    base = torch.arange(12.0).reshape(3, 4).tpu()
    dist.all_reduce(base.t()[1:3])
    want = torch.arange(12.0).reshape(3, 4)
    want.t()[1:3] *= size
    assert base.tolist() == want.tolist()
    flat = torch.zeros(3 * size + 2).tpu()
    dist.all_gather_into_tensor(flat[1:-1], torch.full((6,), float(rank)).tpu()[::2])
    assert flat.tolist() == [0.0, *[float(r) for r in range(size) for _ in range(3)], 0.0]
    empty = torch.empty(0, 3).tpu()
    dist.all_reduce(empty)
    dist.all_gather([torch.empty(0, 3).tpu() for _ in range(size)], empty)


def messages() -> None:
    size, rank = dist.get_world_size(), dist.get_rank()
    after, before = (rank + 1) % size, (rank - 1) % size
    for order in ("send first", "receive first"):
        x, y = torch.full((3,), float(rank)).tpu(), torch.zeros(2, 3).tpu()
        ops = [dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, y[1], before)]
        for work in dist.batch_isend_irecv(ops if order == "send first" else ops[::-1]):
            work.wait()
        assert y.tolist() == [[0.0] * 3, [float(before)] * 3]
    if rank == 0:
        y = torch.empty((), dtype=torch.int64).tpu()
        senders = {dist.recv(y) for _ in range(size - 1)}
        assert senders == set(range(1, size))
    else:
        dist.send(torch.tensor(rank).tpu(), 0)
    dist.barrier()
    everyone: list[object] = [None] * size
    dist.all_gather_object(everyone, {"rank": rank})
    assert everyone == [{"rank": r} for r in range(size)]


@pytest.mark.parametrize(
    "what", [reductions, movements, scattered_sums, exchanges, views, messages], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("size", [2, 3])
def test_as_gloo(what: Callable[[], None], size: int) -> None:
    run(what, size, mode="defer" if size == 2 else "strict")


def one_region() -> None:
    """A collective is a node: nothing runs before a sink, and then all in one launch."""
    x = torch.ones(4).tpu()
    torch.tpu.synchronize()
    with launches() as count:
        y = x * 3
        work = dist.all_reduce(y, async_op=True)
        dist.all_reduce(x)  # which nobody reads
        work.wait()
        z = y + 1
        assert work.is_completed() and count() == 0
        assert z.tolist() == [3.0 * dist.get_world_size() + 1] * 4
        assert count() == 1


def test_nothing_is_cut_for_a_collective() -> None:
    run(one_region, 2, mode="defer")


def unread() -> None:
    """What one rank does not read, the others still get: also where that rank only ends."""
    x = torch.ones(3).tpu()
    dist.all_reduce(x)
    if dist.get_rank() == 0:
        del x
        torch.tpu.synchronize()
    else:
        assert x.tolist() == [2.0] * 3
    y = torch.ones(3).tpu()
    dist.all_reduce(y)
    if dist.get_rank() == 1:
        assert y.tolist() == [2.0] * 3


def test_results_that_nobody_reads_are_still_sent(mode: str) -> None:
    run(unread, 2, mode=mode)


def waits_on_the_host() -> None:
    """Rank 0 reads what rank 1 has only recorded, while rank 1 waits for rank 0 on the host."""
    rank, x = dist.get_rank(), torch.ones(3).tpu()
    host = dist.new_group(backend="gloo")
    waits: list[Callable[[], object]] = [
        lambda: dist.barrier(),
        lambda: dist.barrier(group=host),
        lambda: dist.all_reduce(torch.ones(1), group=host),
        lambda: dist.all_gather_object([None, None], "anything", group=host),
        lambda: dist.new_group(backend="tpu_dist"),
        lambda: dist.send(x, 1) if rank == 0 else dist.recv(torch.empty(3).tpu(), 0),
        lambda: dist.send(torch.ones(1), 1) if rank == 0 else dist.recv(torch.empty(1), 0),
    ]
    with torch.inference_mode():
        for wait in waits:
            dist.all_reduce(x)
            if rank == 0:
                x.tolist()
            wait()


def test_no_rank_waits_for_what_another_has_only_recorded() -> None:
    run(waits_on_the_host, 2, mode="defer", timeout="20")


def groups() -> None:
    rank = dist.get_rank()
    for _ in range(3):  # numbers of destroyed groups are used again
        made = [dist.new_group(ranks) for ranks in ([0, 1], [1, 2], [2, 0])]
        for ranks, group in zip(([0, 1], [1, 2], [2, 0]), made, strict=True):
            if rank not in ranks:
                continue
            x = torch.tensor([rank]).tpu()
            dist.all_reduce(x, group=group)
            dist.broadcast(y := torch.tensor([rank]).tpu(), ranks[1], group=group)
            assert x.tolist() == [sum(ranks)] and y.tolist() == [ranks[1]]
        for ranks, group in zip(([0, 1], [1, 2], [2, 0]), made, strict=True):
            if rank in ranks:
                dist.destroy_process_group(group)


def test_groups_of_some_ranks(mode: str) -> None:
    run(groups, 3, mode=mode)


def model_step(device: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).to(device)
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-2)
    for step in range(4):
        x = sample((8, 6), torch.float32, step).to(device)
        loss = parallel(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


def data_parallel() -> None:
    for got, want in zip(model_step("tpu"), model_step("cpu"), strict=True):
        torch.testing.assert_close(got.cpu(), want)
    functional = funcol.all_reduce(torch.ones(2).tpu(), "sum", dist.group.WORLD) * 2
    assert functional.tolist() == [2.0 * dist.get_world_size()] * 2


def test_data_parallel_training_as_on_the_cpu(mode: str) -> None:
    run(data_parallel, 2, mode=mode)


def refusals() -> None:
    x, size = torch.ones(4).tpu(), dist.get_world_size()
    group = dist.new_group(backend="tpu_dist")
    for wrong, words in [
        (lambda: dist.all_gather_into_tensor(torch.empty(5).tpu(), x), "world_size times"),
        (lambda: dist.reduce_scatter_tensor(torch.empty(3).tpu(), x), "output size times world size"),
        (lambda: dist.all_gather_into_tensor(torch.empty(4 * size, dtype=torch.int32).tpu(), x), "dtype|same type"),
        (lambda: dist.all_reduce(x, Op.BAND), "ReduceOp.band with floating point"),
        (lambda: dist.all_reduce(x > 0, Op.AVG), "ReduceOp.avg with bool"),
        (lambda: dist.all_gather([torch.empty(3).tpu()] * size, x), "one shape|shape"),
        (lambda: dist.all_to_all_single(torch.empty(4).tpu(), x, [1] * size, [1] * size), "[Ss]plit sizes"),
        (lambda: dist.all_reduce(torch.ones(2), group=group), "No backend type associated with device type cpu"),
    ]:
        with pytest.raises((ValueError, RuntimeError, TypeError), match=words):
            wrong()
    dist.all_reduce(x)
    assert x.tolist() == [float(size)] * 4


def test_wrong_input_is_refused_before_anything_is_sent() -> None:
    run(refusals, 2, mode="defer")


def widowed() -> None:
    x = torch.ones(3).tpu()
    dist.all_reduce(x)
    assert x.tolist() == [2.0] * 3
    print("ready", flush=True)
    if dist.get_rank() == 1:
        time.sleep(100)
    with pytest.raises(RuntimeError, match=r"(?i)gloo|peer|connection"):
        dist.all_reduce(x)
        torch.tpu.synchronize()
        x.tolist()
    assert (torch.ones(3).tpu() + 1).tolist() == [2.0] * 3
    print("alone", flush=True)
    os._exit(0)


def test_a_rank_that_dies_is_an_error_of_the_others(mode: str) -> None:
    first, second = start(widowed, 2, mode=mode)
    try:
        assert second.stdout and first.stdout and second.stdout.readline() == "ready\n"
        second.send_signal(signal.SIGKILL)
        out, err = first.communicate(timeout=60)
        assert out.endswith("alone\n"), err[-4000:]
    finally:
        first.kill(), second.kill()


def cached() -> None:
    for _ in range(2):
        x = torch.arange(7.0).tpu() * (dist.get_rank() + 1)
        dist.all_reduce(x)
        assert x.tolist() == [3.0 * i for i in range(7)]
    stats = torch.tpu.compile_stats()
    print(stats["compiles"], stats["disk_hits"] + stats["shared_hits"], flush=True)


def test_programs_with_collectives_come_out_of_the_cache(tmp_path) -> None:
    def counts() -> list[list[int]]:
        ranks = start(cached, 2, mode="defer", TORCH_TPU_CACHE_DIR=str(tmp_path), TORCH_TPU_SHARED_CACHE="0")
        ended = [(p.communicate(timeout=60), p.returncode) for p in ranks]
        assert all(code == 0 for _, code in ended), ended
        return [[int(n) for n in out.split()] for (out, _), _ in ended]

    counts()
    assert all(compiles == 0 and hits > 0 for compiles, hits in counts())


def test_a_group_of_one() -> None:
    run(reductions_alone, 1, mode="defer")


def reductions_alone() -> None:
    x = torch.arange(3.0).tpu()
    dist.all_reduce(x)
    out = torch.empty(3).tpu()
    dist.all_gather_into_tensor(out, x)
    dist.reduce_scatter_tensor(x, out)
    assert x.tolist() == [0.0, 1.0, 2.0]
    assert torch_tpu.modes.current_mode() == "defer"
