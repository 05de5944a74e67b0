"""Draws the figures of the hospital-admission experiment from the results; computes nothing itself."""

from propcal.paper.figures.all_figures import files, pictures
from propcal.paper.figures.picture import PaperFigure

__all__ = ["PaperFigure", "files", "pictures"]
