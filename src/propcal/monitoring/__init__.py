"""Monitoring: is a score still right, for whom not, and since when?

This can be checked at any time.
"""
