"""The fitted correction: its definition, the correction map, explanations, summary.

`definition` and `correction` hold what was fitted; `map_compiler` compiles it to the
tables of `maps`, which everything that scores people reads.
"""
