"""Commands meet an empty home folder."""

from tests.data.conftest import home

__all__ = ["home"]
