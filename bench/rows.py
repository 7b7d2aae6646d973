"""The rows of the table: whose figure is compared with whose, and what the ratio is to be at most."""

from dataclasses import dataclass

from bench.reasons import REASONS


@dataclass(frozen=True)
class Case:
    """What a contestant is asked for (worker.py)."""

    what: str  # for people
    # A new process each time it is asked, one after the other for each of these; none: a process that lives on, so that
    # compiles are paid once.
    parts: tuple[str, ...] = ()
    keeps_cache: bool = False  # the parts share a persistent cache, empty at first; else each has an empty one


CASES = {
    "engine": Case("one operator in C++"),
    "chain": Case("one of 100 dependent adds `z = z + y`, 16x16"),
    "add_read": Case("an add of 16x16 and its result read"),
    "record": Case("an add of 16x16 from Python that nobody reads"),
    "mlp": Case("a training step of the MLP, the loss read after 20"),
    "gpt": Case("a training step of the GPT, the loss read after 4"),
    "decode": Case("a token of the GPT, caches written in place", ("decode",)),
    "decode_cold": Case("the first 64 tokens of the GPT, nothing compiled", ("decode_cold",)),
    "grow_each": Case("`x = cat([x, one])` 200 times, each read, nothing compiled", ("grow_each",)),
    "grow_end": Case("`x = cat([x, one])` 200 times, the last read, nothing compiled", ("grow_end",)),
    "block": Case("layer norm, GELU, dropout, residual and scale of 4M float32"),
    "first": Case("the first training step of the GPT", ("first_cold", "first_warm"), keeps_cache=True),
    "import": Case("from the start of Python to the first tensor", ("import",)),
    "depth": Case("compiling in 5 training steps of a GPT of 24 blocks, against one of 2", ("depth_2", "depth_24")),
    "live": Case("one of 1000 dependent adds while a million tensors live, against ten", ("live",)),
    "length": Case("one of 100,000 dependent adds, the last read, against one of 100", ("length",)),
    "entries": Case(
        "a program from a cache of 100,000 entries, against one of 40",
        ("entries_made", "entries_few", "entries_many"),
        keeps_cache=True,
    ),
}


@dataclass(frozen=True)
class Guide:
    """A figure to stay below, where no peer has the like."""

    value: float


@dataclass(frozen=True)
class Row:
    case: str
    ours: str  # contestant, as contestants.py names it
    peer: str | tuple[str, ...] | Guide  # of several, the one that takes least
    at_most: float | None = None  # None: only told
    figure: str = "seconds"
    peer_figure: str = ""  # where it is another
    about: str = ""  # what tells it from the other rows of its case

    @property
    def missed_since(self) -> str:
        """Where it misses its target: the measured reason, and what would change it."""
        return REASONS.get((self.case, self.ours, self.figure), "not known")

    @property
    def peers(self) -> tuple[str, ...]:
        if isinstance(self.peer, Guide):
            return ()
        return (self.peer,) if isinstance(self.peer, str) else self.peer


def first_rows(mode: str, cold: float) -> list[Row]:
    theirs = f"torchtpu-{mode}"
    return [
        Row("first", mode, theirs, cold, "cold", about="cold"),
        Row("first", mode, "jax", None, "cold", about="cold"),
        Row("first", mode, mode, 0.35, "warm", "cold", about="from disk, against cold"),
        Row("first", mode, theirs, 0.35, "warm", about="from disk"),
        Row("first", mode, "jax", 0.35, "warm", about="from disk"),
    ]


ROWS = [
    Row("engine", "engine", Guide(0.30e-6), 1.0, "record_add", about="recorded, its plan known"),
    Row("engine", "engine", Guide(120e-9), 1.0, "program_lookup", about="its program found in memory"),
    Row("engine", "engine", "engine", None, "strict_add", "pjrt_add", about="Strict, against PJRT's launch alone"),
    Row("chain", "strict", "torchtpu-strict", 0.33),
    Row("chain", "strict", "jax", 0.85),
    Row("chain", "strict", "cpu"),
    Row("chain", "defer", "torchtpu-defer"),
    Row("add_read", "strict", "jax", 1.1),
    Row("add_read", "strict", "torchtpu-strict"),
    Row("add_read", "defer", "jax"),
    Row("record", "defer", "cpu", 0.80),
    Row("mlp", "defer", "jax", 1.05),
    Row("mlp", "defer", "floor"),
    Row("mlp", "defer", "torchtpu-defer"),
    Row("mlp", "strict", "torchtpu-strict"),
    Row("gpt", "defer", "floor", 1.05),
    Row("gpt", "defer", "torchtpu-defer", 0.85),
    Row("gpt", "defer", "jax"),
    Row("gpt", "defer", "cpu"),
    Row("gpt", "defer", "inductor"),
    Row("gpt", "strict", "torchtpu-strict"),
    Row("gpt", "defer", "strict", 0.80, "bytes", about="peak device bytes"),
    Row("gpt", "defer", "jax", 1.10, "bytes", about="peak device bytes"),
    Row("decode", "defer", "torchtpu-defer", 0.01, "new", about="position not seen before"),
    Row("decode", "defer", "jax", 1.5, "new", about="position not seen before"),
    Row("decode", "defer", "jax", 1.5, "seen", about="position seen before"),
    Row("decode", "strict", "jax", None, "seen", about="position seen before"),
    Row("decode", "defer", "cpu", None, "seen", about="position seen before"),
    Row("decode_cold", "defer", "jax", 1.3),
    Row("decode_cold", "strict", "jax"),
    Row("grow_each", "strict", ("torchtpu-strict", "torchtpu-defer"), 0.15),
    Row("grow_each", "defer", ("torchtpu-strict", "torchtpu-defer"), 0.15),
    Row("grow_each", "defer", "jax"),
    Row("grow_end", "defer", "torchtpu-defer", 3.0),
    Row("grow_end", "defer", "jax"),
    Row("block", "defer", "strict", 0.45),
    Row("block", "defer", "strict", 0.6, "bytes", about="peak device bytes"),
    *first_rows("strict", 1.0),
    *first_rows("defer", 0.9),
    Row("import", "strict", "torchtpu-strict", 0.45),
    Row("import", "strict", "cpu"),
    Row("import", "strict", "torchtpu-strict", 0.65, "bytes", about="peak memory of the process"),
    Row("import", "strict", "cpu", None, "bytes", about="peak memory of the process"),
    Row("depth", "defer", "defer", 2.0, "deep", "shallow"),
    Row("live", "strict", "strict", 1.2, "many", "few"),
    Row("live", "defer", "defer", 1.2, "many", "few"),
    Row("length", "defer", "defer", 1.2, "long", "short"),
    Row("entries", "strict", "strict", 1.2, "many", "few"),
]
