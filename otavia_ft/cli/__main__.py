"""``python -m otavia_ft.cli COMMAND``."""

import argparse
import sys
from collections.abc import Sequence

from otavia_ft.cli import demo, doctor


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="otavia-ft", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (demo, doctor):
        summary = (command.__doc__ or "").partition("\n")[0]
        name = command.__name__.rpartition(".")[2]
        subparser = commands.add_parser(name, help=summary, description=summary)
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130  # what a shell reports for a program that Ctrl-C ended
    return status


if __name__ == "__main__":
    sys.exit(main())
