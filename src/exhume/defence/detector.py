"""The sequence detector, which is an admission rule and lives with them; offline use needs no server."""

from exhume.defence.admission._trail import FEATURES, Log, Trail, Watch
from exhume.defence.admission.detector import Detector

__all__ = ["FEATURES", "Detector", "Log", "Trail", "Watch"]
