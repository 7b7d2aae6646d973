"""Why rows miss their targets: shares of the time, by samples of the processor (perf) on one core of an AMD EPYC."""

# By case, contestant and figure.
REASONS = {
    ("chain", "strict", "seconds"): (
        "of an add, 55 % are the plugin's launch with what it allocates, 26 % Python's call and PyTorch's "
        "bindings, which give up and take the interpreter's lock, 19 % the rest, of which 12 ours; jax.jit's "
        "call takes no such lock and makes no autograd. Another plugin, or bindings that keep the lock, would "
        "change it."
    ),
    ("mlp", "defer", "seconds"): (
        "77 % of the step are the plugin's program, alone about as long as jax.jit's whole step. The rest "
        "records it: Python 9 %, PyTorch 8 %, malloc 3 %, ours 2 %. Fewer lines of Python a step would change "
        "it."
    ),
    ("gpt", "defer", "seconds"): (
        "96 % of the step are the plugin and what it compiled, and TorchTPU's plugin is the same; the floor, "
        "the step as one program of that plugin, takes longer than either. Faster kernels would change it."
    ),
    ("decode", "defer", "new"): (
        "24 % of a token are the plugin and what it compiled. The rest records some 70 operators: Python 31 "
        "%, PyTorch 23 %, malloc 10 %, ours 10 %; PyTorch's CPU needs that host time too. A step that is "
        "captured once and launched without Python would change it, as jax.jit is."
    ),
    ("block", "defer", "seconds"): (
        "42 % are the fused loop (erf, and the traffic of x and the result), 28 % two passes for layer norm's "
        "mean and variance, 24 % Philox. Strict does the same arithmetic and only has more traffic. Fewer "
        "rounds of Philox, or statistics in one pass, would change it, and both cost digits."
    ),
    ("block", "defer", "bytes"): (
        "x and the result are 32 MiB, 0.615 of what Strict holds, and are both needed; the mask is the other "
        "4. Bits that are read in the loop would save 3 of them, but a loop over several widths is not made "
        "into vectors."
    ),
    ("first", "strict", "warm"): (
        "half is what the step takes anyway. Of the rest, 43 % load 128 programs (0.6 ms each, spread over "
        "the plugin's reading of protocol buffers, target description and linker; 90 of them are the "
        "optimizer's, one for each operator and shape), 43 % are first launches (page faults of new results; "
        "14 % oneDNN writing its kernels, which the peers wait for too), 7 % search and unpack entries, 5 % "
        "ask for shapes. A plugin that loads several programs at once would change it, as DeferAndFuse's "
        "fewer programs do."
    ),
}
REASONS["decode", "defer", "seen"] = REASONS["decode", "defer", "new"]
