"""The audit from Python: `exhume.audit(features, labels, ...)`."""

from __future__ import annotations

from typing import Any

from exhume.audit.run import Audit
from exhume.audit.run import audit as run
from exhume.audit.settings import GIVEN, make_settings
from exhume.data import FeatureSet, given_features

__all__ = ["audit"]


def audit(features: Any = None, labels: Any = None, *, fresh: bool = False, **settings: Any) -> Audit:
    """Attack a federation of your own features, and say what a client could dig up.

    Parameters
    ----------
    features, labels
        Your rows and their classes; the data set that the settings name if left out.
    fresh
        Whether to forget trials that an earlier run finished.
    **settings
        Any setting of `exhume audit`, such as ``clients``, ``probe``, ``kind``, ``defence``, ``trials`` or ``out``.

    Returns
    -------
    Audit
        Prints as its verdict; a notebook shows the report.
    """
    given: FeatureSet | None = None if features is None else given_features(features, labels)
    if given is not None:
        settings = {**settings, "data": given.data, "encoder": given.encoder, "features": GIVEN}
    return run(make_settings(settings), command="exhume.audit(...)", fresh=fresh, given=given)
