"""Monitoring: is a score still right, for whom not, since when? It can be
checked at any time.
"""
