"""What a malicious client does with a server beyond running one probe: each talks to it through an `Attack`."""

from __future__ import annotations

from exhume.attack.strategies.ballast import ballasted
from exhume.attack.strategies.burn import burn
from exhume.attack.strategies.conditioned import conditioned
from exhume.attack.strategies.retaliate import retaliate
from exhume.attack.strategies.steadiness import steadied
from exhume.attack.strategies.watch import Sighted, watch
from exhume.attack.strategies.zoom import Zoomed, zoom

__all__ = ["Sighted", "Zoomed", "ballasted", "burn", "conditioned", "retaliate", "steadied", "watch", "zoom"]
