# `make demo` and `make test` need Python 3.11+ and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test soak check site gallery reports release clean

setup: $(STAMP)

$(STAMP): pyproject.toml lab/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "faircil needs Python 3.11 or newer; '$(PYTHON)' is older or missing. Set PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]' --editable lab
	touch $(STAMP)

demo: setup
	$(BIN)/faircil demo

test: setup
	$(BIN)/pytest -n 2 --dist loadfile

# Kills, orders of writers, threads and full disks at length, and other examples than `make test`
# draws; see docs/reliability.md.
CASES ?= 40
soak: setup
	$(BIN)/pytest -n 2 -m "hypothesis and not soak" --hypothesis-profile default
	$(BIN)/pytest -m soak -rP --cases $(CASES) tests lab/tests

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=docs/site $(BIN)/mypy docs/site
	$(BIN)/lint-imports
	$(BIN)/bandit -q -c pyproject.toml -r faircil lab .ci
	$(BIN)/python .ci/audit_dependencies.py
	$(BIN)/pytest -q tests/test_docs.py
	$(BIN)/python docs/site/build_site.py

# The documentation as a folder, site/, that needs no server and no network. Warnings are errors.
site: setup
	$(BIN)/python docs/site/build_site.py

# Pages and pictures of examples/gallery, in docs/gallery.
gallery: setup
	$(BIN)/python docs/site/gallery.py

# Wheels and sources in dist/, tried in clean environments with the pinned and the oldest versions.
release: setup
	$(BIN)/python .ci/release.py
	$(BIN)/python .ci/release.py --oldest

# Three reports of finished runs, for docs/report.md; obesity needs its file, see `faircil data`.
REPORTED := biased-digits/er biased-digits/fsw biased-digits/moments digits/er digits/der++ \
	digits/moments obesity/er obesity/gdumb obesity/moments
reports: setup
	for run in $(REPORTED); do $(BIN)/faircil run --dataset $${run%/*} --method $${run#*/} --seeds 0-4 \
		--no-model --out runs/reports/$$run || exit 1; done
	for data in biased-digits digits obesity; do \
		$(BIN)/faircil report runs/reports/$$data -o docs/reports/$$data.html || exit 1; done
	chromium --headless --no-sandbox --hide-scrollbars --window-size=1100,800 --force-device-scale-factor=1.3 \
		--screenshot=docs/images/report.png file://$(CURDIR)/docs/reports/biased-digits.html

clean:
	rm -rf $(VENV) dist build site .pytest_cache .mypy_cache .ruff_cache .hypothesis
