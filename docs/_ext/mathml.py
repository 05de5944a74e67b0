"""Formulas as MathML, which browsers draw themselves: no script, no font, no
picture.
"""

from docutils import nodes
from docutils.utils.math import pick_math_environment
from docutils.utils.math.latex2mathml import tex2mathml


def inline(writer, node):
    """A formula within a line."""
    writer.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def block(writer, node):
    """A formula on lines of its own."""
    formula = node.astext()
    environment = pick_math_environment(formula)
    if environment.startswith("align"):
        formula = f"\\begin{{{environment}}}{formula}\\end{{{environment}}}"
    writer.body.append(f'<div class="math">{tex2mathml(formula, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
