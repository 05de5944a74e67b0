"""Renderers: how a document looks.

In a terminal, on a page, in a notebook, in Markdown, and as a picture.
"""
