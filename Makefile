# Two commands: `make train` sets up, trains on the embedded corpus, scores and translates; `make test` sets up and runs
# the tests. `make test-long` runs those whole runs that take longest, `make drill` many repetitions.
# `make check` reads the code without running it: ruff, types, and the floors of the house.
# `make test-tpu` compiles for TPUs and an H100 with their own compilers; neither has to be there.
# `make test-peers` has transformers read exported runs, in an environment of its own with torch.
# `make docs` fills in what the documents say of the trained run, and draws their pictures of it.
# `make ledger` writes docs/ledger.md from the cards of runs; with RUNS="runs/a runs/b" it makes cards of these first.
# `make explore` shows what the heads of the trained run do, in a page that translates what is typed.
# Other Python: make train PYTHON=python3.12

PYTHON ?= python3
VENV ?= .venv
VENV_TPU ?= .venv-tpu
VENV_PEERS ?= .venv-peers
RUN ?= runs/phrasebook
TIRED_OR_WIDE = printf 'The animal didn%st cross the street because it was too %s.\n' "'" tired "'" wide
FIGURE = $(VENV)/bin/python visualize.py --workdir=$(RUN) --format=png --figure
AT_ONCE = --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check -qq

.PHONY: train explore docs ledger check test test-long drill test-peers test-tpu clean

train: $(VENV)/ready
	$(VENV)/bin/python train.py --config=configs/phrasebook.py --workdir=$(RUN)

explore: $(VENV)/ready
	@test -f $(RUN)/config.json || { echo "There is no run in $(RUN) yet: make train"; exit 2; }
	$(TIRED_OR_WIDE) | $(VENV)/bin/python visualize.py --workdir=$(RUN) --live --input=- --output=$(RUN)/live.html --open

# Needs three runs of one commit, and Chromium for the picture of the page.
docs: $(VENV)/ready-to-test
	@test -n "$(LOG)" -a -n "$(SEEDS)" || { echo "make docs LOG=train.log SEEDS=runs/seed1,runs/seed2"; exit 2; }
	$(VENV)/bin/python analyze.py --workdir=$(RUN) --pruning --output=$(RUN)/analysis.json
	$(VENV)/bin/python -m benchmarks.documents --workdir=$(RUN) --analysis=$(RUN)/analysis.json --log=$(LOG) --seeds=$(SEEDS)
	$(TIRED_OR_WIDE) | $(VENV)/bin/python visualize.py --workdir=$(RUN) --input=- --output=$(RUN)/report.html
	chromium --headless --no-sandbox --hide-scrollbars --window-size=1280,860 --virtual-time-budget=5000 \
	  --screenshot=docs/report.png $(RUN)/report.html
	$(TIRED_OR_WIDE) | $(FIGURE)=cross --output=docs/cross_attention.png
	for picture in 04_encoder 05_cross 05_decoder; do \
	  echo "Bob kicked the ball." | $(FIGURE)=$${picture#*_} --output=docs/course/$$picture.png || exit 1; done
	$(FIGURE)=curves --output=docs/course/07_curves.png
	$(VENV)/bin/python -m benchmarks.notebook --workdir=$(RUN)
	echo "Ich bin Student." > $(RUN)/student.de
	echo "I am a student." | $(FIGURE)=distributions --reference=$(RUN)/student.de --output=docs/course/07_distributions.png

ledger: $(VENV)/ready
	$(VENV)/bin/python -m benchmarks.ledger $(if $(RUNS),add $(RUNS))

check: $(VENV)/ready-to-test
	$(VENV)/bin/python -m ruff check .
	$(VENV)/bin/python -m basedpyright --project=pyproject.toml --pythonpath $(VENV)/bin/python
	$(VENV)/bin/python -m pytest -q tests/test_house.py

test: $(VENV)/ready-to-test
	$(VENV)/bin/python -m pytest -q $(AT_ONCE)

test-long: $(VENV)/ready-to-test
	$(VENV)/bin/python -m pytest -q -m 'long and not drill' $(AT_ONCE)

drill: $(VENV)/ready-to-test
	$(VENV)/bin/python -m pytest -q -m drill

test-peers: $(VENV)/ready-to-test $(VENV_PEERS)/ready
	PEERS_PYTHON=$(VENV_PEERS)/bin/python $(VENV)/bin/python -m pytest -q -m peers

$(VENV_PEERS)/ready:
	@test -x $(VENV_PEERS)/bin/python || $(PYTHON) -m venv $(VENV_PEERS)
	@$(VENV_PEERS)/bin/python -m pip --disable-pip-version-check -qq install torch transformers sentencepiece
	@touch $@

test-tpu: $(VENV_TPU)/ready
	$(VENV_TPU)/bin/python -m pytest -q -m tpu

$(VENV_TPU)/ready: requirements-tpu.txt requirements.txt requirements-test.txt
	@test -x $(VENV_TPU)/bin/python || $(PYTHON) -m venv $(VENV_TPU)
	@$(VENV_TPU)/bin/python -m pip --disable-pip-version-check -qq install -r requirements-tpu.txt
	@touch $@

# Python compiles what it imports, once; all of it at once takes a third of the set-up, and pays only for the tests.
$(VENV)/ready: requirements.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"Python 3.11 or newer is needed, this is {v[0]}.{v[1]}; choose one with: make PYTHON=python3.12")'
	@echo "Setting up $(VENV) (half a minute to a minute) …"
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --no-compile -r requirements.txt
	@touch $@

$(VENV)/ready-to-test: $(VENV)/ready requirements-test.txt
	@$(PIP) install -r requirements-test.txt
	@$(VENV)/bin/python -m compileall -q -q -j 0 $(VENV)/lib || true
	@touch $@

clean:
	rm -rf $(VENV) $(VENV_TPU) $(VENV_PEERS)
