"""The array type of this room."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["Matrix"]

Matrix = NDArray[np.float64]
