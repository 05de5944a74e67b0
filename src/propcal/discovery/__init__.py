"""Discovery: groups that nobody named, found in the features, tested against chance and
described.
"""
