"""
A score in a warehouse: correct it in SQL
=========================================

A correction can be written as SQL. The database then gives exactly the numbers that
Python gives."""

import duckdb
import matplotlib.pyplot as plt
import numpy as np

from propcal import PMCBoost
from propcal.datasets import load_doctor_visits

years = load_doctor_visits()
past, new = years[years.person < 1765], years[years.person >= 1765]
cal = PMCBoost().fit(
    past, score="risk", outcome="frequent", groups=["plan", "limited"], cluster="person"
)
sql = cal.correction_.to_sql(dialect="duckdb", score="risk", table="new_years")
print(repr(sql))

# %%
# Run the set-up once, and the query whenever there are new people.

connection = duckdb.connect()
connection.register("new_years", new)
for statement in sql.setup:
    connection.execute(statement)
scored = connection.execute(sql.query).df()
same = cal.correction_.apply(scored.risk, scored[["plan", "limited"]])
print("the same as in Python, to the last bit:", np.array_equal(scored.corrected, same))

# %%
# What the correction does to every score, by insurance plan:

figure, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
for plan, part in scored.sort_values("risk").groupby("plan"):
    ax.plot(part.risk, part.corrected, label=plan)
ax.plot([0, 1], [0, 1], color="grey", linestyle=":")
ax.set(xlabel="score", ylabel="corrected score")
ax.legend()
