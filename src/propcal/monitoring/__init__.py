"""Monitoring: is a score still right, for whom not, since when? Looked at as often as
one likes.
"""
