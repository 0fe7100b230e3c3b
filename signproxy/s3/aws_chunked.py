"""Take apart bodies that are framed as aws-chunked, piece by piece, and release only what was verified."""

from __future__ import annotations

import re
from hashlib import sha256
from hmac import compare_digest

from signproxy.errors import Reason, Refused
from signproxy.s3.checksums import checksum, is_known
from signproxy.s3.chunk_framing import ChunkFraming, Data, Piece
from signproxy.s3.faults import Fault, S3Refused
from signproxy.s3.payload import Payload, PayloadMode
from signproxy.s3.sigv4 import ALGORITHM
from signproxy.s3.verify import SeedSignature

MIN_CHUNK = 8192
"""S3's own least size of every signed chunk but the last one with data."""

_JOINED = 256
"""Pieces of data that become one: of a body in chunks of a byte, each piece would cost two hundred."""

_SIGNATURE = "x-amz-trailer-signature"
_IS_SIGNATURE = re.compile("[0-9a-f]{64}")
_CHECKSUM = "x-amz-checksum-"
_EMPTY = sha256().hexdigest()


class _Trailer:
    """The checksum that a trailer announces, computed in passing and compared at the end."""

    __slots__ = ("_checksum", "_name", "values")

    def __init__(self, name: str, *, verifies: bool) -> None:
        self._name = name
        self.values: dict[str, str] = {}
        algorithm = name.removeprefix(_CHECKSUM)
        self._checksum = checksum(algorithm) if verifies and is_known(algorithm) else None

    def update(self, data: Data) -> None:
        if self._checksum is not None:
            self._checksum.update(data)

    def check(self, trailers: list[tuple[str, str]]) -> None:
        """Compare what came with what was announced and with the data."""
        if [name for name, _ in trailers] != ([self._name] if self._name else []):
            came = ", ".join(name for name, _ in trailers) or "none"
            reason = Reason.CHUNK_MALFORMED if trailers else Reason.CHUNK_INCOMPLETE
            told = f"trailer {came}, announced was {self._name or 'none'}"
            raise S3Refused(reason, Fault.TRAILER_FORM, detail=told)
        self.values.update(trailers)
        if self._checksum is not None:
            computed = self._checksum.base64()
            declared = self.values[self._name]
            if declared != computed:
                told = f"{self._name} of what arrived is {computed}"
                if len(declared) != len(computed):
                    # No value of this algorithm is that long.
                    raise S3Refused(Reason.CHECKSUM_MISMATCH, Fault.TRAILER_VALUE, self._name, detail=told)
                algorithm = self._name.removeprefix(_CHECKSUM).upper()
                raise S3Refused(Reason.CHECKSUM_MISMATCH, Fault.CHECKSUM, algorithm, detail=told)


class UnsignedWatch(ChunkFraming):
    """Follows the framing of an unsigned-trailer upload that is passed through untouched."""

    __slots__ = ("_trailer",)

    def __init__(self, payload: Payload, *, verifies: bool) -> None:
        """`verifies` says whether the checksum of the trailer is computed and compared here."""
        super().__init__(payload.decoded_length or 0, signed=False, with_trailer=True)
        self._trailer = _Trailer(payload.trailer, verifies=verifies)

    def feed(self, piece: Piece) -> None:
        """Follow the next piece; raise Refused at the first byte that does not belong."""
        self.follow(piece)

    def finish(self) -> dict[str, str]:
        """Take note that the body ended; return its trailers."""
        self.check_ended()
        return self._trailer.values

    def on_data(self, data: Data) -> None:
        """Count the data into the checksum."""
        self._trailer.update(data)

    def on_end(self, trailers: list[tuple[str, str]]) -> None:
        """Compare the trailer."""
        self._trailer.check(trailers)


class ChunkedPayload(ChunkFraming):
    """The body of one upload: fed in pieces of the framing, it gives out the data.

    The last piece of data is held until more follows, so that the end is released only by `finish`, when the
    final chunk and the trailer were seen and match. A store that was promised the whole length then makes no object.
    """

    __slots__ = (
        "_chain",
        "_chunks",
        "_held",
        "_joined",
        "_last_size",
        "_released",
        "_signed",
        "_trailer",
        "_trailer_signed",
    )

    def __init__(self, payload: Payload, seed: SeedSignature | None) -> None:
        """`seed` is what the chunks are signed from; None where the caller proved its identity in another way."""
        mode = payload.mode
        self._signed = mode.signed
        self._trailer_signed = mode is PayloadMode.SIGNED_CHUNKS_TRAILER
        super().__init__(
            payload.decoded_length or 0, signed=self._signed, with_trailer=mode is not PayloadMode.SIGNED_CHUNKS
        )
        self._chain = _Chain(seed) if seed is not None and self._signed else None
        self._trailer = _Trailer(payload.trailer, verifies=True)
        self._last_size = 0
        self._chunks = 0
        self._held: Data = b""
        self._released: list[Data] = []
        self._joined: list[Data] = []

    def feed(self, piece: Piece) -> list[Data]:
        """Take the next piece of the body; return the data that may be released."""
        self.follow(piece)
        released = self._joined + self._released
        self._joined, self._released = [], []
        return released

    def finish(self) -> tuple[list[Data], dict[str, str]]:
        """Take note that the body ended; return the data that is left and the verified trailers."""
        self.check_ended()
        held, self._held = self._held, b""
        return [held] if held else [], self._trailer.values

    def on_head(self, size: int, signature: str) -> None:
        """Begin a chunk; the final one is whole with its head."""
        if self._signed and size and 0 < self._last_size < MIN_CHUNK:
            told = f"a chunk of {self._last_size} bytes is not the last one"
            facts = str(self._chunks), str(self._last_size)
            raise S3Refused(Reason.CHUNK_MALFORMED, Fault.CHUNK_SIZE, *facts, detail=told)
        self._last_size = size
        self._chunks += 1
        if self._chain is not None:
            self._chain.begin(signature)
            if not size:
                self._chain.end()

    def on_data(self, data: Data) -> None:
        """Hold the data until more comes; what was held may go."""
        if self._held:
            self._released.append(self._held)
            if len(self._released) == _JOINED:
                self._joined.append(b"".join(self._released))
                self._released.clear()
        self._held = data
        if self._chain is not None:
            self._chain.update(data)
        self._trailer.update(data)

    def on_chunk(self) -> None:
        """Compare the chunk's signature, before its end is released."""
        if self._chain is not None:
            self._chain.end()

    def on_end(self, trailers: list[tuple[str, str]]) -> None:
        """Compare the trailer and its signature."""
        if self._trailer_signed:
            if not trailers:
                raise S3Refused(Reason.CHUNK_INCOMPLETE, Fault.TRAILER_FORM, detail="the trailer is missing")
            *trailers, (name, signature) = trailers
            if name != _SIGNATURE or not _IS_SIGNATURE.fullmatch(signature):
                raise Refused(Reason.CHUNK_INCOMPLETE, "the signature of the trailer is missing")
            if self._chain is not None:
                self._chain.end_with(trailers, signature)
        self._trailer.check(trailers)


class _Chain:
    """The signatures of the chunks, each of which signs the one before it."""

    __slots__ = ("_claimed", "_hash", "_previous", "_seed")

    def __init__(self, seed: SeedSignature) -> None:
        self._seed = seed
        self._previous = seed.signature
        self._claimed = ""
        self._hash = sha256()

    def begin(self, claimed: str) -> None:
        """Begin a chunk by the signature in its head."""
        self._claimed = claimed
        self._hash = sha256()

    def update(self, data: Data) -> None:
        self._hash.update(data)

    def end(self) -> None:
        """Compare the signature of the chunk that was read."""
        self._compare("PAYLOAD", f"{_EMPTY}\n{self._hash.hexdigest()}", self._claimed, "a chunk")
        self._previous = self._claimed

    def end_with(self, trailers: list[tuple[str, str]], claimed: str) -> None:
        """Compare the signature of the trailer."""
        text = "".join([f"{name}:{value}\n" for name, value in trailers])
        self._compare("TRAILER", sha256(text.encode()).hexdigest(), claimed, "the trailer")

    def _compare(self, kind: str, hashed: str, claimed: str, what: str) -> None:
        seed = self._seed
        text = f"{ALGORITHM}-{kind}\n{seed.amz_date}\n{seed.day.scope}\n{self._previous}\n{hashed}"
        if not compare_digest(seed.day.mac(text.encode()), claimed):
            raise Refused(Reason.CHUNK_SIGNATURE, f"signature of {what}")
