"""Producer ids are never given twice."""

from mainstem.coordination.transactions.producer_ids import BLOCK, ProducerIds


def test_ids_of_two_lives_never_meet() -> None:
    given: list[int] = []
    stored: dict[bytes, bytes | None] = {}
    for _ in range(3):
        ids = ProducerIds()
        for key, value in stored.items():
            ids.replay(key, value)
        for _ in range(BLOCK + BLOCK // 2):
            taken = ids.take()
            if taken is None:
                claim = ids.decide_block()
                stored[claim.key] = claim.value
                ids.replay(claim.key, claim.value)
                ids.open_block()
                taken = ids.take()
            assert taken is not None
            given.append(taken)
    assert len(set(given)) == len(given)
    assert min(given) >= 0
