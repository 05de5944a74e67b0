"""Sentences that an example prints are broken where the page ends; tables stay as they are."""

import re
from html import unescape

LINE = r'<span class="go">([^\n]*)</span>\n'
LINES = re.compile(f"(?:{LINE})+")
GALLERY = re.compile(
    r'(<div class="sphx-glr-script-out[^>]*><div class="highlight"><pre)(><span></span>)(.*?)(?=</pre>)', re.S
)
COLUMNS = re.compile(r"^ |\S  ", re.M)
FULL = 80  # a sentence goes on in the next line if this one is so long


def flow(lines):
    """Lines of a paragraph as one, to be broken by the browser."""
    text = ""
    for line in lines:
        text += line + (" " if len(unescape(line)) >= FULL else "\n")
    return text.rstrip()


def in_session(match):
    lines = re.findall(LINE, match[0])
    if COLUMNS.search("\n".join(lines)):
        return match[0]
    return f'<span class="go sentences">{flow(lines)}</span>\n'


def in_gallery(match):
    return match[0] if COLUMNS.search(match[3]) else f'{match[1]} class="sentences"{match[2]}{match[3]}'


def rewrite(_app, _page, _template, context, _tree):
    """Change the output of one page."""
    if "body" in context:
        context["body"] = GALLERY.sub(in_gallery, LINES.sub(in_session, context["body"]))


def without_last_line(_app, _page, source):
    """Doctest needs an empty line at the end of an example; the site does not."""
    source[0] = re.sub(r"\n\n```(?=\n)", "\n```", source[0])


def setup(app):
    """Connect to the reading and the writing of pages."""
    app.connect("source-read", without_last_line)
    app.connect("html-page-context", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
