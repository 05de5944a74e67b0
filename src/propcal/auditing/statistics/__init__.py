"""Statistics of one group: samples, measures, intervals, tests, and what is chance."""
