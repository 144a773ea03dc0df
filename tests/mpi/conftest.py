import pytest

from pingpong import plans


@pytest.fixture(scope="session", autouse=True)
def programs():
    """The native loops of all kernels; in these tests none may be absent."""
    from pingpong.native import loops

    assert loops.prepare(plans.make(loop="native", sizes="8"), lambda sentence: None) == []
