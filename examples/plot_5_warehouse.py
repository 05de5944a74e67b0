"""
A score in a warehouse: correct it in SQL
=========================================

A correction can be written as SQL. The database then gives exactly the numbers that Python gives.
"""

import duckdb
import matplotlib.pyplot as plt
import numpy as np

from propcal import PMCBoost
from propcal.datasets import load_readmissions

stays = load_readmissions()
past, new = stays[stays.patient < 15_000], stays[stays.patient >= 15_000]
cal = PMCBoost().fit(past, score="risk", outcome="readmitted", groups=["race", "payer"], cluster="patient")
sql = cal.correction_.to_sql(dialect="duckdb", score="risk", table="new_stays")
print(repr(sql))

# %%
# Run the set-up once, and the query whenever there are new people.

connection = duckdb.connect()
connection.register("new_stays", new)
for statement in sql.setup:
    connection.execute(statement)
scored = connection.execute(sql.query).df()
same = cal.correction_.apply(scored.risk, scored[["race", "payer"]])
print("the same as in Python, to the last bit:", np.array_equal(scored.corrected, same))

# %%
# What the correction does to every score, for three payers:

figure, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
for payer in ("Medicare", "private or other", "self-pay"):
    part = scored[(scored.payer == payer) & (scored.race == "Caucasian")].sort_values("risk")
    ax.plot(part.risk, part.corrected, label=payer)
ax.plot([0, 1], [0, 1], color="grey", linestyle=":")
ax.set(xlabel="score", ylabel="corrected score", title="Caucasian patients, by payer")
ax.legend()
