"""``python -m torch_tpu COMMAND``: the tools of the package."""

import argparse
import importlib
import sys

# A module with arguments(parser) and main(args) -> exit status, and what it does.
COMMANDS = {
    "cache": ("torch_tpu._cache_command", "look at, check and shrink the cache of compiled programs"),
    "report": ("torch_tpu._report.command", "run a script and write a page on its programs, time and memory"),
    "aot": ("torch_tpu.aot.command", "compile a script's programs for a TPU that is not here"),
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_tpu")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (module, what) in COMMANDS.items():
        command = commands.add_parser(name, help=what, add_help=name in argv[:1])
        if name in argv[:1]:  # only that one is imported
            found = importlib.import_module(module)
            command.description = found.__doc__
            command.formatter_class = argparse.RawDescriptionHelpFormatter
            command.set_defaults(main=found.main)
            found.arguments(command)
    args = parser.parse_args(argv)
    return args.main(args)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
