"""Draw the pictures of the guide to the paper, as `propcal paper simulation` and `... theory` do.

python docs/images/paper.py
"""

from pathlib import Path

from propcal.paper.figure_file import save_figure
from propcal.paper.simulation.simulation import simulate
from propcal.paper.simulation.simulation_figure import plot_simulation
from propcal.paper.theory import theory
from propcal.paper.theory.theory_figures import plot_constraints, plot_discretisation, plot_relations

ALPHA, RHO = 0.2, 0.1


def main():
    figures = {
        "simulation": plot_simulation(simulate()),
        "theory_constraints": plot_constraints(theory.constraints(ALPHA, RHO), alpha=ALPHA, rho=RHO),
        "theory_relations": plot_relations(theory.relations()),
        "theory_discretisation": plot_discretisation(theory.discretisation()),
    }
    for name, figure in figures.items():
        save_figure(figure, Path(__file__).with_name(f"{name}.png"))


if __name__ == "__main__":
    main()
