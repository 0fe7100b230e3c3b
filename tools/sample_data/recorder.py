"""Remember what a perfect pipeline would find in the ordinary traffic: who used what, and when first."""

from __future__ import annotations

from signproxy.audit.event import AuditEvent, Kind, Verdict

_OPENING = frozenset({Kind.SIGN, Kind.FORWARD, Kind.VEND, Kind.REFRESH})
_ALLOW = Verdict.ALLOW


class Seen:
    """What one instance's events amount to."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Kind, Verdict], int] = {}
        self.first: dict[tuple[str, str, str, str, str], float] = {}
        """By principal, effective principal, namespace, table and access."""
        self.used: set[tuple[str, str, str, str, str]] = set()
        """Effective principal, way, namespace, table, access."""

    def note(self, at: float, event: AuditEvent) -> None:
        """Note an event."""
        kind = event.kind
        counted = (kind, event.decision)
        self._counts[counted] = self._counts.get(counted, 0) + 1
        if event.table and event.decision is _ALLOW and kind in _OPENING:
            effective = event.effective_principal or event.principal
            who = (event.principal, effective, event.namespace, event.table, event.access)
            known = self.first.get(who)
            if known is None or at < known:
                self.first[who] = at
                self.used.add((effective, kind.value, event.namespace, event.table, event.access))
            if event.s3_op == "CopyObject":
                # What is written was read, here from the same table.
                self.used.add((effective, kind.value, event.namespace, event.table, "read"))

    @property
    def kinds(self) -> dict[str, int]:
        """Events by kind and decision."""
        return {f"{kind.value}/{verdict.value}": count for (kind, verdict), count in self._counts.items()}

    def merge(self, other: Seen) -> None:
        """Add what another instance saw."""
        for key, count in other._counts.items():
            self._counts[key] = self._counts.get(key, 0) + count
        for who, at in other.first.items():
            known = self.first.get(who)
            if known is None or at < known:
                self.first[who] = at
        self.used |= other.used
