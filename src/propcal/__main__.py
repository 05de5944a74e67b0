"""``python -m propcal`` is the command line."""

from propcal.cli import main

if __name__ == "__main__":
    main()
