"""Ask a store for one object after the other, by requests that differ in the name of the object, and in little else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from signproxy.credentials.credentials import Credentials
from signproxy.errors import Refused
from signproxy.forward.addresses import Destination
from signproxy.forward.pool import Pool
from signproxy.forward.quick import QuickExchange
from signproxy.forward.resign import Resigner, Second, StoreRequest
from signproxy.s3.storage import STAMP


class Repeated:
    """A request without a body, of which everything is known but the last segment of its path."""

    __slots__ = (
        "_address", "_bucket", "_credentials", "_destination", "_folder", "_lines", "_method", "_pool", "_request",
        "_resigner", "_second", "_stamp", "stamped",
    )  # fmt: skip

    def __init__(
        self,
        pool: Pool,
        resigner: Resigner,
        request: StoreRequest,
        destination: Destination,
        bucket: str,
        credentials: Callable[[], Credentials],
        *,
        stamped: bool,
    ) -> None:
        """`request` is one of them: its path is its target, with no query behind it."""
        self._pool = pool
        self._resigner = resigner
        self._request = request
        self._destination = destination
        self._bucket = bucket
        self._address = destination.address
        self._method = request.method
        self._credentials = credentials
        self._second: Second | None = None
        self.stamped = stamped
        """Whether each carries the id of its audit event."""
        self._stamp = f"{STAMP}=" if stamped else ""
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
        second, number = self._second, int(now)
        if second is None or second.number != number or second.credentials is not credentials:
            second = self._second = self._resigner.second(
                self._request, self._destination, self._bucket, credentials, number
            )
        query = self._stamp + event_id if self._stamp else ""
        message = second.head(self._folder + name, query, "".join(block))
        return exchange.ask(self._pool, self._address, message, self._method)
