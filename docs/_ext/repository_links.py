"""On the site, links to files of the repository that are not pages become plain
text.
"""

import re
from pathlib import Path

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(#[^)]*)?\)")


def unlink(app, docname, source):
    """Take out the links of one page that lead out of `docs`, or to a folder."""
    root = Path(app.srcdir).resolve()
    here = Path(app.env.doc2path(docname)).parent

    def replaced(match):
        target = (here / match[2]).resolve()
        inside = target.is_relative_to(root)
        return (
            match[0]
            if inside and (target.is_file() or not target.exists())
            else match[1]
        )

    source[0] = LINK.sub(replaced, source[0])


def setup(app):
    """Connect to the reading of pages."""
    app.connect("source-read", unlink)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
