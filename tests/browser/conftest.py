"""One browser for all checks of a worker, and one context without network."""

import re
from collections.abc import Iterator
from typing import Any

import page_checks
import pytest
from playwright.sync_api import BrowserContext
from xdist.scheduler import LoadScopeScheduling


@pytest.fixture(scope="session")
def context() -> Iterator[BrowserContext]:
    with page_checks.chromium() as browser, page_checks.offline(browser) as context:
        yield context


class ByPage(LoadScopeScheduling):
    """All checks of a page run on one worker, and so do all of a class and of a module."""

    def _split_scope(self, nodeid: str) -> str:
        page = re.search(r"\[(book/.*?\.html)", nodeid)
        return page[1] if page else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByPage:
    return ByPage(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the pages last: many short checks, which at the end keep all workers busy."""
    items.sort(key=lambda item: item.path.name == "test_book.py")
