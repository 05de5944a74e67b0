"""Draw the pictures of the guide to the paper, as `propcal paper simulation` and `...
theory` do.

python docs/images/paper.py
"""

from pathlib import Path

from propcal_paper.figure_parts import save
from propcal_paper.simulation import picture_of, simulate
from propcal_paper.theory import pictures


def main():
    for picture in (picture_of(simulate()), *pictures(alpha=0.2, rho=0.1)):
        save(picture.figure, Path(__file__).with_name(f"{picture.name}.png"))


if __name__ == "__main__":
    main()
