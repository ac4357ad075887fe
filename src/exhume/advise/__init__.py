"""Every attack against every defence: what each stops, what it costs, which one fits. `exhume.advise(...)` runs it."""

from exhume._callable import make_callable

make_callable(__name__, "python", "advise")
