"""Settings of every test run."""

import os

from hypothesis import HealthCheck, settings

# Deadlines measure a busy machine rather than the code; `thorough` is for an evening.
settings.register_profile("quick", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
