"""Settings of upstreams as the server takes them: files read, secrets kept, compared with the policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from signproxy.catalog.signer_grant import Offer
from signproxy.catalog.upstream_spec import CallTimeouts, ExchangedToken, SameToken, Secret, ServiceToken
from signproxy.config.settings import Settings
from signproxy.config.upstream import UpstreamSettings
from signproxy.errors import SettingsInvalid
from signproxy.server.process.named_files import digest_of
from signproxy.server.process.reloads import watched_files
from signproxy.server.process.upstreams import (
    contents_in,
    missing_upstreams,
    unused_upstreams,
    upstreams_of,
)
from signproxy.server.status.readiness import Readiness
from signproxy.server.status.report import UpstreamReport
from signproxy.server.status.status import State, Status, status_of
from signproxy.server.status.status_page import page
from tests.authority import Authority
from tests.facade.front import POLICY
from tests.policies import MemoryPolicySource
from tests.server.status.reports import NOW, UPSTREAM, fleet, worker


def settings(**changes: Any) -> dict[str, UpstreamSettings]:
    return {"lake": msgspec.convert({"uri": "https://catalog.example/api/", **changes}, UpstreamSettings)}


def faults(**changes: Any) -> list[str]:
    with pytest.raises(SettingsInvalid) as caught:
        upstreams_of(settings(**changes))
    return [str(finding) for finding in caught.value.findings]


class TestSpecs:
    """What an upstream is made of."""

    def test_everything_that_was_set_is_there(self, tmp_path: Path) -> None:
        """A setting that is read and lost would look as if it were in force."""
        authority = Authority()
        (tmp_path / "ca").write_text(authority.pem)
        (tmp_path / "secret").write_text("geheim\n")
        (spec,) = upstreams_of(
            settings(
                warehouse="w",
                prefix="p",
                ca_file=str(tmp_path / "ca"),
                token_forwarding="exchange",
                exchange={
                    "token_url": "https://idp.example/token",
                    "client_id": "me",
                    "client_secret_file": str(tmp_path / "secret"),
                    "audience": "a",
                    "scope": "s",
                    "resource": "r",
                },
                offer_signing="always",
                headers=["Polaris-Realm"],
                connections=3,
                connect_seconds=1,
                answer_seconds=2,
                read_seconds=3,
                load_seconds=4,
                max_answer_mib=2,
            )
        )
        assert spec.uri == "https://catalog.example/api"
        assert (spec.catalog, spec.warehouse, spec.prefix, spec.ca) == ("lake", "w", "p", authority.pem)
        expected = ExchangedToken("https://idp.example/token", "me", Secret("geheim"), "a", "s", "r")
        assert spec.forwarding == expected
        assert spec.offer is Offer.ALWAYS
        assert spec.headers == {"polaris-realm"}
        assert (spec.connections, spec.times, spec.max_answer) == (3, CallTimeouts(1, 2, 3, 4), 2 * 1024 * 1024)

    def test_what_was_not_set_is_the_default(self) -> None:
        """The reference page would tell of others."""
        (spec,) = upstreams_of(settings())
        assert spec.forwarding == SameToken()
        assert spec.times == CallTimeouts()
        assert spec.max_answer == 64 * 1024 * 1024
        assert spec.offer is Offer.ON_REQUEST

    def test_a_service_token_comes_from_a_file(self, tmp_path: Path) -> None:
        """It would stand in the settings file, and in every log of them."""
        (tmp_path / "t").write_text("token-1\r\n")
        (spec,) = upstreams_of(settings(token_forwarding="none", token_file=str(tmp_path / "t")))
        assert spec.forwarding == ServiceToken(Secret("token-1"))
        (spec,) = upstreams_of(settings(token_forwarding="none"))
        assert spec.forwarding == ServiceToken(None)

    @pytest.mark.parametrize("content", ("", "\n", "two words", "two\nlines", "\u00e9", "a\tb"))
    def test_a_secret_that_no_header_can_hold_is_refused(self, content: str, tmp_path: Path) -> None:
        """Every call would fail, with a message about a header."""
        (tmp_path / "t").write_text(content, encoding="utf-8")
        (fault,) = faults(token_forwarding="none", token_file=str(tmp_path / "t"))
        assert fault.startswith("upstreams.lake.token_file: ")
        assert content.strip() not in fault or not content.strip()

    @pytest.mark.parametrize("content", (b"no certificate", b"\xff\xfe"))
    def test_an_authority_that_is_none_is_refused(self, content: bytes, tmp_path: Path) -> None:
        """No connection would be made, and the reason would be told with each of them."""
        (tmp_path / "ca").write_bytes(content)
        (fault,) = faults(ca_file=str(tmp_path / "ca"))
        assert fault.startswith("upstreams.lake.ca_file: ")

    def test_every_fault_is_told(self, tmp_path: Path) -> None:
        """An operator would find them one restart after the other."""
        one = msgspec.convert({"uri": "https://a", "ca_file": str(tmp_path / "none")}, UpstreamSettings)
        other = msgspec.convert(
            {"uri": "https://b", "token_forwarding": "none", "token_file": str(tmp_path / "none")}, UpstreamSettings
        )
        with pytest.raises(SettingsInvalid) as caught:
            upstreams_of({"one": one, "other": other})
        assert [finding.path for finding in caught.value.findings] == [
            "upstreams.one.ca_file",
            "upstreams.other.token_file",
        ]

    def test_its_files_are_watched_and_told_apart(self, tmp_path: Path) -> None:
        """A rotated secret would not be noticed, or two workers serve with different ones."""
        (tmp_path / "t").write_text("token-1")
        given = settings(token_forwarding="none", token_file=str(tmp_path / "t"))
        assert [named.file for named in watched_files(Settings(upstreams=given))] == [tmp_path / "t"]
        first = digest_of(contents_in(upstreams_of(given)))
        assert first == digest_of(contents_in(upstreams_of(given)))
        (tmp_path / "t").write_text("token-2")
        assert first != digest_of(contents_in(upstreams_of(given)))


class TestAgainstThePolicy:
    """The policy says that tables are learned, the settings from where."""

    def test_a_catalog_without_its_upstream_is_a_fault(self) -> None:
        """Every table of the catalog would be unknown, without a reason in sight."""
        state = MemoryPolicySource(POLICY.replace("AUTHORIZER", "policy"), single_issuer=True).load(1)
        assert [str(finding) for finding in missing_upstreams(state, ["lake"])] == [
            "upstreams.other: this key is missing; the policy says `tables: upstream` for the catalog"
        ]
        assert [*missing_upstreams(state, ["lake", "other"])] == []

    def test_an_upstream_that_nothing_leads_to_is_told(self) -> None:
        """A misspelt catalog, or a forgotten line of the policy, would leave the facade closed."""
        state = MemoryPolicySource(POLICY.replace("AUTHORIZER", "policy"), single_issuer=True).load(1)
        assert [str(finding) for finding in unused_upstreams(state, ["lake", "declared", "othr"])] == [
            "upstreams.declared: has no effect: catalog 'declared' does not say `tables: upstream`",
            "upstreams.othr: the policy has no catalog 'othr' (did you mean 'other'?)",
        ]


class TestStatus:
    """What `/status` says of upstreams."""

    def seen(self, *reports: UpstreamReport, alarms: int = 0) -> Status:
        workers = [worker(number, upstreams=(report,), alarms=alarms) for number, report in enumerate(reports)]
        report = fleet(*workers)
        readiness = Readiness()
        return status_of(report, readiness.judge(report), NOW)

    def test_a_failing_upstream_is_a_trouble_and_no_reason_to_be_sent_nothing(self) -> None:
        """Kubernetes would take every pod out of service because of a catalog that is down, and signing with it."""
        failing = msgspec.structs.replace(UPSTREAM, last_failure_at=NOW - 5, problem="status 503")
        status = self.seen(failing)
        assert status.state is State.READY_BUT
        (trouble,) = status.troubles
        assert str(trouble) == (
            "the upstream of catalog lake fails, 5 s ago last; 12,345 tables that are known go on being signed"
        )
        assert "https://catalog.example/api: status 503" in trouble.details
        assert "status 503" in page(status)

    def test_workers_are_told_together(self) -> None:
        """Two workers would be two upstreams to a reader."""
        failing = msgspec.structs.replace(
            UPSTREAM, last_success_at=NOW - 100, last_failure_at=NOW - 50, problem="old", tables=3
        )
        status = self.seen(failing, UPSTREAM)
        (joint,) = status.upstreams
        assert joint.problem == ""
        assert (joint.last_success_at, joint.last_failure_at) == (NOW - 10, NOW - 50)
        assert (joint.in_flight, joint.tables) == (4, 12_345)
        assert status.state is State.READY
        assert all(not each.upstreams for each in status.fleet.workers)

    def test_alarms_are_worth_a_look(self) -> None:
        """A table that claims a neighbour's directory would go unnoticed."""
        (trouble,) = self.seen(UPSTREAM, UPSTREAM, alarms=2).troubles
        assert str(trouble) == "locations of learned tables were not believed, 4 times"
