import os

# One BLAS thread a process: NumPy's and SciPy's wheels bring separate pools, which fight each other.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile(
    "exhume", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("exhume")
