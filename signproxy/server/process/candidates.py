"""Say what a configuration that was read would change."""

from __future__ import annotations

from signproxy.config.difference import difference as settings_difference
from signproxy.inventory.changes.difference import difference as policy_difference
from signproxy.server.process.fleet import Candidate
from signproxy.server.process.generation import Generation, yielding


def candidate_of(old: Generation, new: Generation, certificate: str) -> Candidate:
    """Return the difference of two configurations; beside a serving loop, in a thread."""
    with yielding():
        changes = [change.text for change in settings_difference(old.settings, new.settings)]
        changes += policy_difference(old.state, new.state)
        unread = [change.text for change in settings_difference(new.settings, new.asked)]
    return Candidate(new.revision, f"{new.fingerprint}/{certificate}", tuple(changes), tuple(unread))
