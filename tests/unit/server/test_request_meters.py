"""Requests are counted by kind and by how long they took."""

from prometheus_client.core import Metric

from mainstem.server.request_meters import RequestMeters


def samples(families: list[Metric]) -> dict[tuple[str, str], float]:
    return {(s.name, s.labels.get("le", "")): s.value for family in families for s in family.samples}


def test_answers_are_counted_by_how_long_they_took() -> None:
    meters = RequestMeters()
    meters.meter("kafka", "Fetch")
    meter = meters.meter("kafka", "Produce", 15)
    meter.requests = 64
    assert meters.meter("kafka", "Produce") is meter
    now = 100.0
    meter.clock = lambda: now
    for elapsed in (0.0004, 0.0009, 0.3, 20.0):
        meter.answered(now - elapsed, 250)
    meter.answered(-1.0, 500)
    found = samples(list(meters.measure()))
    counted = {bound: value for (name, bound), value in found.items() if name == "mainstem_request_seconds_bucket"}
    assert [counted[bound] for bound in ("0.0005", "0.001", "0.25", "0.5", "10.0", "+Inf")] == [1, 2, 2, 3, 3, 4]
    assert found["mainstem_request_seconds_count", ""] == 4
    assert round(found["mainstem_request_seconds_sum", ""], 4) == 20.3013
    assert found["mainstem_request_throttle_seconds_total", ""] == 1.5
    assert found["mainstem_requests_total", ""] == 64
