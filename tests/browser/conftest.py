"""One browser for all checks of a worker, and one context without network."""

from collections.abc import Iterator

import page_checks
import pytest
from playwright.sync_api import BrowserContext


@pytest.fixture(scope="session")
def context() -> Iterator[BrowserContext]:
    with page_checks.chromium() as browser, page_checks.offline(browser) as context:
        yield context
