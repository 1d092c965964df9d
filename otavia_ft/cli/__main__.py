"""See actors run in parallel on this machine, or find out why they would not."""

import argparse
import importlib
import sys
from collections.abc import Sequence

COMMANDS = ("demo", "doctor")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="otavia-ft", description=__doc__, epilog="Example: otavia-ft doctor"
    )
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in COMMANDS:
        try:
            command = importlib.import_module(f"otavia_ft.cli.{name}")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "rich":
                raise  # our own mistake, not an extra that was left out
            print(
                "otavia-ft: the commands draw with rich, which is not installed here; "
                "install the extra: pip install 'otavia-ft[cli]'",
                file=sys.stderr,
            )
            return 1
        summary = (command.__doc__ or "").partition("\n")[0]
        subparser = subparsers.add_parser(
            name, help=summary, description=summary, epilog=f"Example: {command.EXAMPLE}"
        )
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
