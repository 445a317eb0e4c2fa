"""Who writes faster than the disk is looked at does not bring the engine down."""

import asyncio

from mainstem.model.errors import StorageFull
from mainstem.storage.async_runtime import AsyncRuntime
from mainstem.storage.contract import Append, Commit, Committed, CreateLog, LogConfig, Mutation
from mainstem.storage.local.engine import LocalEngine
from mainstem.storage.local.settings import EngineSettings
from mainstem.testing.disk import SimulatedDisk
from tests.contract.storage.batches import batch

FILE_BYTES = 64 << 10


def test_appends_are_refused_before_the_disk_is_full_to_the_last_byte() -> None:
    async def main() -> None:
        runtime = AsyncRuntime(asyncio.get_running_loop())
        disk = SimulatedDisk()
        disk.capacity = 24 * FILE_BYTES
        settings = EngineSettings(data_directory="/data", wal_file_bytes=FILE_BYTES, disk_reserve_bytes=0)
        engine = LocalEngine.open(disk=disk, runtime=runtime, settings=settings)
        failures: list[BaseException] = []
        engine.on_failure(failures.append)
        # Nothing may go early, and no maintenance comes in time.
        await engine.alter([CreateLog(1, LogConfig(delete=False))])
        taken = 0
        while True:
            (result,) = await engine.commit([Commit(appends=[Append(1, batch(bytes(4096)))])])
            if not isinstance(result, Committed):
                break
            taken += 1
        assert isinstance(result, StorageFull), result
        assert taken > 100
        for number in range(50):  # acknowledgements and the like still have room
            (result,) = await engine.commit([Commit(state=[Mutation("s", b"%d" % number, bytes(100))])])
            assert isinstance(result, Committed), result
        assert (await engine.read(1, taken - 1, 1)).batches
        assert failures == []
        await engine.close()
        runtime.close()

    asyncio.run(main())
