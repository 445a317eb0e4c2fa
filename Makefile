# Every target sets up what it needs into .venv, and only when pyproject.toml or constraints.txt changed.
#   make serve            run the broker               (ARGS="--listen http=127.0.0.1:0")
#   make test             run the tests                (ARGS="tests/unit -k name")
#   make lint             style, types, layers
#   make simulate SEEDS=N seeded crash simulations     make crash CYCLES=N   kill a real broker again and again
#   make spark-crash      kill a Spark query and its broker again and again   (SPARK_CYCLES=50 QUEUE_CYCLES=20)
#   make pipeline-crash   kill the processes of a deployed pipeline           (PIPELINE_CYCLES=10)
#   make test-java        Kafka's own Java tools, MirrorMaker 2, Spark's connector and RocketMQ's client, where Maven Central can be reached
#   make test-declarative a project of Spark's Declarative Pipelines over topics, run twice
#   make test-spark-cluster  a Spark cluster on this machine, whose workers do not have mainstem
#   make test-console     the console in Chromium, where it is installed
#   make check-console    the console's types, by TypeScript from npm, where Node is installed
#   make test-connect     `mainstem sql` on a Spark Connect server
#   make test-tables      topics kept as tables by `serve --pipelines`, killed with everything
#   make demo             orders in, totals by Spark, in about a minute
#   make bench            measure                      make bench-spark   measure Spark over topics
#   make bench-pairs      broker CPU per message beside another checkout's    (BASE=DIRECTORY, set up with make setup)
#   make cluster          two brokers over PostgreSQL and an object store    make chaos-cluster   kill, pause, cut them off
#   make setup, make compile, make clean
# Hot modules are compiled where there is a C compiler, again whenever they changed; MAINSTEM_PURE=1 runs them as Python.

PYTHON  ?= python3
CHAOS_ROUNDS ?= 60
CHAOS_RESULTS ?= chaos-cluster.jsonl
ARGS    ?=
SEEDS   ?= 100
CYCLES  ?= 1000
KAFKA_CYCLES ?= 200
SPARK_CYCLES ?= 50
QUEUE_CYCLES ?= 20
PIPELINE_CYCLES ?= 10
AMQP_CYCLES ?= 200
MQTT_CYCLES ?= 200
TYPESCRIPT ?= 7.0.2

VENV    := .venv
BIN     := $(VENV)/bin
CREATED := $(VENV)/.created
# The stamp's name holds a checksum of what it was installed from: a changed file asks for another stamp, a touched
# one, or a fresh checkout with new timestamps, does not.
SUM     := $(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)
SERVE   := $(VENV)/.serve-$(SUM)
DEV     := $(VENV)/.dev-$(SUM)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

COMPILE := $(BIN)/python compile_core.py

.PHONY: serve test wrong-passwords test-console check-console test-java test-spark-cluster test-connect test-tables test-declarative pulsar-kills demo lint \
  bench bench-pairs bench-spark simulate crash spark-crash pipeline-crash cluster chaos-cluster setup compile clean
.DEFAULT_GOAL := test

serve: $(SERVE)
	@$(COMPILE)
	@exec $(BIN)/mainstem serve $(ARGS)

test: compile
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadscope $(ARGS)

# Not part of `test`: it fetches Apache Kafka, and says so and ends well where it cannot.
test-java: compile
	$(BIN)/python -m pytest tests/java/kafka_tools.py tests/java/share_tools.py tests/java/mirror_maker.py tests/java/streams_tools.py tests/java/spark_connector.py tests/java/rocketmq_remoting.py $(ARGS)

# Not part of `test`, for its minutes; a short part of it is.
pulsar-kills: compile
	$(BIN)/python -m pytest -s tests/clients/pulsar/many_kills.py $(ARGS)

# Not part of `test`, for its minutes.
test-spark-cluster: compile
	$(BIN)/python -m pytest tests/spark/cluster/on_a_cluster.py tests/spark/cluster/pipeline_on_a_cluster.py $(ARGS)

# Not part of `test`, for its minutes; a short part of it is.
test-console: compile
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
	  echo "test-console needs Chromium, which is not installed (Debian: apt install chromium)"; exit 1; }
	LOOKS=$(LOOKS) $(BIN)/python -m pytest tests/console tests/console/stories.py tests/console/looks.py $(ARGS)

check-console:
	@command -v npx >/dev/null || { echo "check-console needs Node with npx, which is not installed"; exit 1; }
	npx --yes --package typescript@$(TYPESCRIPT) tsc --project tests/console/jsconfig.json

test-connect: compile
	$(BIN)/python -m pytest tests/spark/sql/on_a_connect_server.py $(ARGS)

test-tables: compile
	$(BIN)/python -m pytest tests/spark/tables/kept_by_a_worker.py $(ARGS)

# Not part of `test`, for its minutes.
test-declarative: compile
	$(BIN)/python -m pytest tests/spark/pipelines/declarative.py $(ARGS)

demo: compile
	@$(BIN)/python -m demo

lint: $(DEV)
	$(BIN)/ruff check --output-format concise
	$(BIN)/ruff format --check --quiet --output-format concise
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: compile
	$(BIN)/python -m benchmarks $(ARGS)

bench-pairs: compile
	$(BIN)/python -m benchmarks.pairs $(BASE) $(ARGS)

bench-spark: compile
	$(BIN)/python -m benchmarks.spark $(ARGS)

simulate: compile
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(ARGS)

crash: compile
	$(BIN)/python -m tests.crash --cycles $(CYCLES) $(ARGS)
	$(BIN)/python -m tests.clients.kafka.crash --cycles $(KAFKA_CYCLES) $(ARGS)
	$(BIN)/python -m tests.clients.amqp.crash --cycles $(AMQP_CYCLES) $(ARGS)
	$(BIN)/python -m tests.clients.mqtt.crash --cycles $(MQTT_CYCLES) $(ARGS)

# A Spark query and its broker, killed at named points and at random moments.
spark-crash: compile
	$(BIN)/python -m pytest tests/spark/crash/without_the_fence.py tests/spark/crash/driver_at_every_point.py
	$(BIN)/python -m tests.spark.crash --cycles $(SPARK_CYCLES) $(ARGS)
	$(BIN)/python -m pytest tests/spark/queue_mode/crash/at_every_point.py
	$(BIN)/python -m tests.spark.queue_mode.crash --cycles $(QUEUE_CYCLES) $(ARGS)

# A deployed pipeline, its driver, worker and broker killed at random moments.
pipeline-crash: compile
	$(BIN)/python -m tests.spark.pipelines.crash --cycles $(PIPELINE_CYCLES) $(ARGS)

# PostgreSQL, SeaweedFS and two brokers, until Ctrl-C.
cluster: compile
	$(BIN)/python -m tests.cluster

# Rounds of a minute among faults. Rounds that $(CHAOS_RESULTS) has are not run again.
chaos-cluster: compile
	$(BIN)/python -m tests.cluster.database_fail_over
	$(BIN)/python -m tests.cluster.chaos --rounds $(CHAOS_ROUNDS) --results $(CHAOS_RESULTS) $(ARGS)

# 10,000 wrong passwords while a good client goes on: one a second is looked at, and the good client is served.
wrong-passwords: compile
	$(BIN)/python -m tests.system.users.wrong_passwords $(ARGS)

setup: compile

compile: $(DEV)
	@$(COMPILE)

clean:
	rm -rf $(VENV) build dist src/mainstem/_compiled .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# Made last, so that an interrupted set-up begins anew.
$(CREATED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "mainstem needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1)." >&2; \
	  echo "Choose another one with: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV) && touch $@ || { rm -rf $(VENV); exit 1; }

$(SERVE): | $(CREATED)
	@echo "installing what serving needs"
	@$(INSTALL) --editable '.[compile]'
	@rm -f $(VENV)/.serve-* && touch $@

# The development set contains the serving one.
$(DEV): | $(CREATED)
	@echo "installing what development needs"
	@$(INSTALL) --editable '.[dev]'
	@rm -f $(VENV)/.serve-* $(VENV)/.dev-* && touch $@ $(SERVE)
