"""A worker process: examines one operator after the other, as the parent asks."""

import copy
import os
import random
import time
import traceback
import warnings
from multiprocessing.connection import Connection
from typing import Any

from .verdict import Verdict

# What a message to the parent begins with.
READY, PROGRESS, DONE, BROKEN = "ready", "progress", "done", "broken"

# Tests of the sweep itself: "neg=crash,sin=hang,cos=wrong" makes the worker misbehave for these operators.
FAULT = "TORCH_TPU_CONFORMANCE_FAULT"


def main(pipe: Connection, samples: int, mode: str, log: str) -> None:
    """Answers (operator, dtype) with a verdict until the parent closes the pipe."""
    os.environ["TORCH_TPU_OPT_LEVEL"] = "0"  # compiling is most of the work
    with open(log, "wb") as file:  # what a crash says goes past Python
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    import torch

    from .selection import DTYPES, database_of, entries

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    entries("op")
    pipe.send((READY, ""))
    while True:
        try:
            name, dtype = pipe.recv()
        except EOFError:
            return
        try:
            random.seed(0)
            torch.manual_seed(0)
            info = _faulty(entries(database_of(name))[name], name)
            verdict = Verdict(name, dtype)
            examination = examiner(name)(info, DTYPES[dtype], verdict, mode, lambda text: pipe.send((PROGRESS, text)))
            pipe.send((DONE, examination.run(samples).to_json()))
        except Exception as error:  # of the sweep itself, or of PyTorch's samples
            last = traceback.extract_tb(error.__traceback__)[-1]
            pipe.send((BROKEN, f"{type(error).__name__}: {error} ({os.path.basename(last.filename)}:{last.lineno})"))


def examiner(name: str) -> Any:
    """The class that examines the entries of the database that ``name`` stands in."""
    from .examine import Examination
    from .modules import ModuleExamination
    from .optimizers import OptimizerExamination
    from .selection import database_of

    return {"module": ModuleExamination, "optim": OptimizerExamination}.get(database_of(name), Examination)


def _faulty(op: Any, name: str) -> Any:
    fault = dict(pair.split("=") for pair in os.environ.get(FAULT, "").split(",") if pair).get(name)
    if fault is None:
        return op
    faulty, sound = copy.copy(op), op.op

    def run(*args: Any, **kwargs: Any) -> Any:
        result = sound(*args, **kwargs)
        if result.device.type == "tpu":
            if fault == "crash":
                os.abort()
            if fault == "hang":
                time.sleep(3600)
            return result + 1
        return result

    faulty.op = run
    return faulty
