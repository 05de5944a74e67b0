"""A correction for places without propcal: as SQL, or as one file of Python, JavaScript
or R.
"""
