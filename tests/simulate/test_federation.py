"""One federation: a server, honest clients, a malicious one."""

from exhume.defence.config import Config, Entry
from exhume.simulate.federation import Federation


def test_a_fork_leaves_the_federation_alone(scenario):
    federation = Federation.behind(scenario, Config(admission=(Entry.of("signed-messages"), Entry.of("replay"))))
    before = federation.server.ledger.summary
    twin = federation.fork()
    assert twin.delete(scenario.others[:1]).refused is None
    assert federation.server.ledger.summary == before
    assert federation.delete(scenario.others[:1]).refused is None
