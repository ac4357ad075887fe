"""Settings, attacks, findings, verdict: what a client of a server could dig up. `exhume.audit(...)` runs one."""

from exhume._callable import make_callable

make_callable(__name__, "python", "audit")
