"""What a fit gives: a map of scores for each pattern, how it is looked up, explained and summed up."""
