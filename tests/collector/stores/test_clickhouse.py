import itertools
from typing import Any

import pytest
from store_contract import OpenStore, StoreContract

pytestmark = pytest.mark.clickhouse
pytest.importorskip("chdb", reason="chdb is not there: pip install 'agentprof-otel[clickhouse-test]'")

_numbers = itertools.count()


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """How to reach the ClickHouse in this process: there can be only one."""
    return {"interface": "chdb", "path": str(tmp_path_factory.mktemp("chdb"))}


class TestClickHouse(StoreContract):
    """The contract on a database of an engine in this process."""

    @pytest.fixture
    def open_store(self, engine: dict[str, Any]) -> OpenStore:
        from agentprof_collector.stores.clickhouse import ClickHouseStore

        database = f"test `{next(_numbers)}`"
        return lambda: ClickHouseStore(database, **engine)
