# Every target makes its own virtual environment first, in .venv or .venv-lowest; nothing outside this folder changes.
PYTHON ?= python3
BIN := .venv/bin
LOWEST := .venv-lowest

.PHONY: demo test test-engines test-browser test-slow test-recipes test-all test-lowest lint types bench bench-quality figures docs coverage wheel test-wheel map clean

demo: .venv/installed
	$(BIN)/propcal demo

# worksteal: neighbours stay in one process, which makes what they share once
test: .venv/developed
	$(BIN)/pytest -n auto --dist worksteal

# loadgroup: what needs Spark is in one process, what needs Dask in one, and so on
test-engines: .venv/developed
	$(BIN)/pytest -m engines -n auto --dist loadgroup

test-browser: .venv/developed
	$(BIN)/pytest -m browser

test-slow: .venv/developed
	$(BIN)/pytest -m slow -n auto --dist worksteal

# MLflow, dbt and FastAPI, which the other tests do without
test-recipes: .venv/recipes/installed
	PYTHONPATH=src .venv/recipes/bin/python -m pytest tests/recipes

test-all: .venv/developed
	$(BIN)/pytest -m "" -n auto --dist loadgroup

# what numba compiles is kept apart from what its newest version compiled
test-lowest: $(LOWEST)/developed
	NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/numba $(LOWEST)/bin/pytest -n auto --dist worksteal

lint: .venv/developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/developed
	$(BIN)/mypy

bench: .venv/developed
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/classifier.py
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/audit_groups.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/cohort.py
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/felt.py --cold
	$(BIN)/python benchmarks/sql.py
	$(BIN)/python benchmarks/reduction.py
	$(BIN)/python benchmarks/monitor.py
	$(BIN)/python benchmarks/sites.py

bench-quality: .venv/developed
	$(BIN)/pip install --quiet --group peers
	$(BIN)/python benchmarks/quality.py
	$(BIN)/python benchmarks/quality_report.py

figures: .venv/developed
	$(BIN)/python docs/images/report.py
	$(BIN)/python docs/images/paper.py

# every example runs; a warning is an error; the site is in build/site
docs: .venv/documented
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/site

# lines and branches that the fast tests run; numba's loops are compiled and do not count
coverage: .venv/developed
	$(BIN)/pip install --quiet coverage
	$(BIN)/coverage run --branch --source=src/propcal,paper/src/propcal_paper -m pytest
	$(BIN)/coverage report --skip-covered --sort=cover

# built, installed into an empty environment, and tried there
wheel:
	rm -rf build/dist build/empty
	$(PYTHON) -m venv build/empty
	build/empty/bin/pip install --quiet build
	build/empty/bin/python -m build --outdir build/dist .
	$(PYTHON) -m venv --clear build/empty
	build/empty/bin/pip install --quiet build/dist/*.whl
	cd build/empty && bin/propcal demo

# the fast tests of the sdist, unpacked outside of this folder, on the wheel
test-wheel: wheel
	build/empty/bin/pip install --quiet --upgrade "pip>=25.1"
	build/empty/bin/pip install --quiet ./paper --group test
	outside=$$(mktemp -d) && tar -xzf build/dist/*.tar.gz --strip-components=1 -C $$outside && \
		tests=$(CURDIR)/build/empty/bin/pytest && cd $$outside && $$tests -n auto --dist worksteal tests paper/tests docs README.md

map: .venv/developed
	$(BIN)/python docs/module_map.py

clean:
	rm -rf .venv $(LOWEST) build docs/gallery docs/reference/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --editable .
	@touch $@

# with propcal-paper, which adds the command propcal paper
.venv/developed: .venv/installed paper/pyproject.toml
	$(BIN)/pip install --quiet --editable ./paper --group dev
	@touch $@

# an environment on top of .venv, whose packages it sees, for what needs other versions of some of them
.venv/recipes/installed: .venv/developed
	$(PYTHON) -m venv .venv/recipes
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$(.venv/recipes/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth"
	$(BIN)/pip --python .venv/recipes/bin/python install --quiet --group recipes
	@touch $@

.venv/documented: .venv/installed paper/pyproject.toml
	$(BIN)/pip install --quiet --editable ./paper --group docs
	@touch $@

# the dependencies of pyproject.toml with == in place of >=; what only tests need is the newest that goes with them
$(LOWEST)/developed: pyproject.toml paper/pyproject.toml
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/pip install --quiet --upgrade "pip>=25.1"
	$(LOWEST)/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
		| sed 's/>=/==/' > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/pip install --quiet --constraint $(LOWEST)/lowest.txt --editable . --editable ./paper --group test
	@touch $@
