"""Draw the pictures of the guide to the paper, as `propcal paper simulation` and `... theory` do.

python docs/images/paper.py
"""

from pathlib import Path

from propcal.paper.figure_parts import save
from propcal.paper.simulation import plot_simulation, simulate
from propcal.paper.theory import (
    constraints,
    discretisation,
    plot_constraints,
    plot_discretisation,
    plot_relations,
    relations,
)

ALPHA, RHO = 0.2, 0.1


def main():
    figures = {
        "simulation": plot_simulation(simulate()),
        "theory_constraints": plot_constraints(constraints(ALPHA, RHO), alpha=ALPHA, rho=RHO),
        "theory_relations": plot_relations(relations()),
        "theory_discretisation": plot_discretisation(discretisation()),
    }
    for name, figure in figures.items():
        save(figure, Path(__file__).with_name(f"{name}.png"))


if __name__ == "__main__":
    main()
