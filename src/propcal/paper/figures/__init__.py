"""The figures of the hospital-admission experiment: results drawn, nothing computed."""

from propcal.paper.figures.all_figures import FILES, pictures
from propcal.paper.figures.picture import PaperFigure

__all__ = ["FILES", "PaperFigure", "pictures"]
