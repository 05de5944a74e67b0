"""The program: ``propcal``, or ``python -m propcal``, is the command line."""

import sys


def main() -> None:
    """Run the command line; an interruption is one line, also while modules are still
    being imported.
    """
    try:
        from propcal.cli import main as run

        run()
    except KeyboardInterrupt:
        print("propcal: interrupted; no file was changed", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
