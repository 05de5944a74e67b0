#!/usr/bin/env bash
# The job of a month: watch the score in use, fit a new correction, and put it to use only if it passes.
#
#   monthly.sh past.csv held_out.csv new.csv
#
# past.csv: people to fit; held_out.csv: other people, to judge by; new.csv: everybody so far, with the date `arrived`.
# Exit codes: 0 the new correction is in use, 1 a gate failed or there is a new alarm, 2 a file or an option is wrong.
set -euo pipefail
past=$1 held_out=$2 new=$3
columns=(--score risk --outcome admitted --groups race,gender)

# 1. Is the score in use still right? The page is written in any case; an alarm is told at the end.
alarm=0
propcal monitor "$new" --state risk.monitor --time arrived "${columns[@]}" --html monitor.html \
  --fail-on new-alarm >monitor.txt || alarm=$?
[ "$alarm" -lt 2 ] || exit "$alarm"

# 2. A new correction, judged on people that it was not fitted to. The gate fails closed: too few people fail it,
#    too, and so does a column that was coded differently.
propcal fit "$past" "${columns[@]}" -o candidate.json --force >fit.txt
propcal audit "$held_out" "${columns[@]}" --correction candidate.json --html audit.html --force \
  --fail-on verdict --fail-on "unseen > 1%" >audit.txt

# 3. In one step: a service never sees half a file.
mv candidate.json model.json
exit "$alarm"
