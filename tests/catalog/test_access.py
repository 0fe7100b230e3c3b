"""Who asks, and for what."""

from __future__ import annotations

import pytest

from signproxy.catalog.signer_grant import IcebergClient, Offer, asks_for_signing, client_of, is_offered


@pytest.mark.parametrize(
    ("user_agent", "client_version", "expected"),
    (
        ("PyIceberg/0.12.0", "0.14.1", IcebergClient.PYICEBERG),
        ("pyiceberg/0.11.1", "", IcebergClient.PYICEBERG),
        ("Apache-HttpClient/5.6 (Java/17.0.12)", "Apache Iceberg 1.12.0 (commit 212aa894)", IcebergClient.JAVA),
        ("", "Apache Iceberg 1.9.2 (commit 071d5606)", IcebergClient.JAVA),
        # A header that the user set stands for the client's own.
        ("my-job/1.0", "Apache Iceberg unspecified", IcebergClient.JAVA),
        ("GoIceberg/0.4.0", "0.14.1", IcebergClient.OTHER),
        ("duckdb/v1.5.5", "", IcebergClient.OTHER),
        ("", "", IcebergClient.OTHER),
        ("Mozilla (like PyIceberg/0.12.0)", "", IcebergClient.OTHER),
    ),
)
def test_a_client_is_known_by_what_it_sends(user_agent: str, client_version: str, expected: IcebergClient) -> None:
    """PyIceberg needs what would be odd for all others."""
    assert client_of(user_agent, client_version) is expected


@pytest.mark.parametrize(
    ("offer", "delegation", "offered"),
    (
        (Offer.ON_REQUEST, "", False),
        (Offer.ON_REQUEST, "vended-credentials", False),
        (Offer.ON_REQUEST, "remote-signing", True),
        (Offer.ON_REQUEST, "vended-credentials, remote-signing", True),
        (Offer.ALWAYS, "", True),
        (Offer.ALWAYS, "vended-credentials", True),
    ),
)
def test_signing_is_offered_on_request_or_always(offer: Offer, delegation: str, *, offered: bool) -> None:
    """iceberg-go refuses a table that offers it; others would read with keys of their own."""
    assert is_offered(offer, delegation) is offered


def test_the_header_is_a_list_of_names() -> None:
    """A name that contains another one asks for something else."""
    assert not asks_for_signing("no-remote-signing")
    assert not asks_for_signing("remote-presigning")
