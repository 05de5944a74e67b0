"""The numbers behind Tables 4, 5 and 6 and the figures: a store of trials in, plain frames out."""
