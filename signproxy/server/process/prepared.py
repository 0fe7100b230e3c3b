"""Hold what a generation of settings and policy needs to serve, until all workers have it and it is taken up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from signproxy.catalog.upstreams import PreparedUpstreams
from signproxy.credentials.store import PreparedCredentials
from signproxy.identity.authenticator import PreparedIssuers
from signproxy.server.process.fleet import Candidate
from signproxy.server.process.generation import Generation
from signproxy.server.process.tls import PreparedCertificate

if TYPE_CHECKING:
    from signproxy.server.s3.service import S3Prepared


class Prepared(msgspec.Struct, frozen=True):
    """A checked generation with all that it needs to serve."""

    generation: Generation
    credentials: PreparedCredentials
    issuers: PreparedIssuers
    upstreams: PreparedUpstreams
    certificate: PreparedCertificate | None
    s3: S3Prepared | None
    candidate: Candidate
