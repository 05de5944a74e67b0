"""Computes the numbers behind Tables 4, 5 and 6 and the figures from a store of trials."""
