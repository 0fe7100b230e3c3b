"""Ask a store for one object after the other, by requests that differ in the name of the object, and in little else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from signproxy.credentials.credentials import Credentials
from signproxy.errors import Refused
from signproxy.forward.pool import Pool
from signproxy.forward.quick import QuickExchange
from signproxy.forward.store_request import BucketSigner, Resigner, Second, StoreRequest
from signproxy.s3.request import S3Request
from signproxy.s3.storage import STAMP


class Repeated:
    """A request without a body, of which everything is known but the last segment of its path."""

    __slots__ = (
        "_bucket", "_credentials", "_folder", "_lines", "_method", "_pool", "_request", "_resigner", "_second",
        "_signer", "_stamp", "_storage", "stamped",
    )  # fmt: skip

    def __init__(
        self,
        pool: Pool,
        resigner: Resigner,
        request: StoreRequest,
        judged: S3Request,
        credentials: Callable[[], Credentials],
    ) -> None:
        """`request` is one of them, as its store gets it: its path is its target, with no query behind it.

        `judged` is the same request as the gate let it pass.
        """
        self._pool = pool
        self._resigner = resigner
        self._request = request
        self._storage = judged.storage
        self._bucket = judged.bucket
        self._method = request.method
        self._credentials = credentials
        self._signer: BucketSigner | None = None
        self._second: Second | None = None
        self.stamped = request.stamped
        """Whether each carries the id of its audit event."""
        self._stamp = f"{STAMP}=" if request.stamped else ""
        self._folder = request.path[: request.path.rfind("/") + 1]
        self._lines = [f"{name}: {value}\r\n" for name, value in request.headers]

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """The client's headers that are sent on, names as spelled."""
        return self._request.headers

    def ask(self, exchange: QuickExchange, name: str, event_id: str, lines: Mapping[int, str], now: float) -> bool:
        """Ask for an object; False where that is not possible at once, and nothing was sent.

        `lines` are those headers that differ, by their place among the ones that are sent on.
        """
        try:
            credentials = self._credentials()
        except Refused:
            return False
        block = self._lines
        if lines:
            block = block.copy()
            for at, line in lines.items():
                block[at] = line
        signer, second, number = self._signer, self._second, int(now)
        if signer is None or signer.credentials is not credentials:
            signer, second = self._resigner.find(self._storage, self._bucket, credentials), None
            self._signer = signer
        if second is None or second.number != number:
            second = self._second = signer.second(self._request, number)
        target = path = self._folder + name
        query = ""
        if self._stamp:
            query = self._stamp + event_id
            target = f"{path}?{query}"
        message = second.head(target, path, query, "".join(block))
        return exchange.ask(self._pool, signer.address, message, self._method)
