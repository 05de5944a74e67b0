"""Printed sentences are broken where the page ends, and commands between words; tables
stay as they are.
"""

import re
from html import unescape

LINE = r'<span class="go">([^\n]*)</span>\n'
LINES = re.compile(f"(?:{LINE})+")
GALLERY = re.compile(
    r'(<div class="sphx-glr-script-out[^>]*><div class="highlight"><pre)(><span></span>)(.*?)(?=</pre>)',
    re.S,
)
COMMANDS = re.compile(
    r'(<div class="highlight-sh[^>]*><div class="highlight"><pre>)(<span></span>)?(.*?)\n?(?=</pre>)',
    re.S,
)
OPTION = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*)")
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
    return (
        match[0]
        if COLUMNS.search(match[3])
        else f'{match[1]} class="sentences"{match[2]}{match[3]}'
    )


def commands(match):
    """Each command in a block of its own, whose further lines are indented; options
    stay whole.
    """
    lines = match[3].split("\n")
    if any(line.count("<span") != line.count("</span") for line in lines):
        return match[0]
    blocks = (
        OPTION.sub(r'<span class="option">\1</span>', line) or "&#8203;"
        for line in lines
    )
    return match[1] + "".join(
        f'<span class="command">{block}</span>' for block in blocks
    )


def rewrite(_app, _page, _template, context, _tree):
    """Change the output of one page."""
    if "body" in context:
        context["body"] = COMMANDS.sub(
            commands, GALLERY.sub(in_gallery, LINES.sub(in_session, context["body"]))
        )


def without_last_line(_app, _page, source):
    """Doctest needs an empty line at the end of an example; the site does not."""
    source[0] = re.sub(r"\n\n```(?=\n)", "\n```", source[0])


def setup(app):
    """Connect to the reading and the writing of pages."""
    app.connect("source-read", without_last_line)
    app.connect("html-page-context", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
