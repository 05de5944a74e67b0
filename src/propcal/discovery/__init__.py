"""Discovery: groups that nobody named, found in the features and tested.

The search is compared with chance, and its groups are described.
"""
