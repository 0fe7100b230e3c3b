"""Write the XML of S3, its answers and the bulk delete, so that no key, name or text in it can be read as markup."""

from __future__ import annotations

import re
from collections.abc import Iterable

from signproxy.s3.bulk_delete import DeletedObject

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
_NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
_REFERENCES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    # Parsers turn these into spaces or line feeds where they stand as they are.
    "\t": "&#x9;",
    "\n": "&#xA;",
    "\r": "&#xD;",
}
# The last two end a line, and so become a line feed, for parsers of XML 1.1.
_READ_OTHERWISE = re.compile("[&<>\t\n\r\x85\u2028]")
_SPECIAL = re.compile('[&<>"\t\n\r\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]')


def escaped(text: str) -> str:
    """Return a text as the content of an element; what XML cannot hold is replaced."""
    return _SPECIAL.sub(_reference, text)


def error_xml(code: str, message: str, resource: str, request_id: str, extra: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return an Error document; `extra` are further elements such as HeadersNotSigned."""
    further = "".join([_element(name, text) for name, text in extra])
    return (
        f"{_DECLARATION}<Error>{_element('Code', code)}{_element('Message', message)}"
        f"{_element('Resource', resource)}{further}{_element('RequestId', request_id)}"
        f"{_element('HostId', request_id)}</Error>"
    ).encode()


def list_buckets_xml(
    buckets: Iterable[tuple[str, str]],
    *,
    prefix: str | None = None,
    next_token: str = "",
    owner: str = "signproxy",
) -> bytes:
    """Return a ListAllMyBucketsResult of names and dates; `next_token` is where the next part of it goes on."""
    listed = "".join(
        [f"<Bucket>{_element('Name', name)}{_element('CreationDate', created)}</Bucket>" for name, created in buckets]
    )
    return (
        f"{_DECLARATION}<ListAllMyBucketsResult {_NAMESPACE}><Owner>{_element('ID', owner)}"
        f"{_element('DisplayName', owner)}</Owner><Buckets>{listed}</Buckets>"
        f"{'' if prefix is None else _element('Prefix', prefix)}"
        f"{_element('ContinuationToken', next_token) if next_token else ''}</ListAllMyBucketsResult>"
    ).encode()


def delete_result_xml(errors: Iterable[tuple[str, str, str, str]]) -> bytes:
    """Return a DeleteResult that tells of errors alone, as `delete_errors` takes them."""
    return f"{_DECLARATION}<DeleteResult {_NAMESPACE}>{delete_errors(errors)}</DeleteResult>".encode()


def delete_errors(errors: Iterable[tuple[str, str, str, str]]) -> str:
    """Return the Error elements of a DeleteResult; each of key, code, message, and version where one was named."""
    return "".join(
        [
            f"<Error>{_element('Key', key)}{_element('VersionId', version) if version else ''}"
            f"{_element('Code', code)}{_element('Message', message)}</Error>"
            for key, code, message, version in errors
        ]
    )


def delete_document(objects: Iterable[DeletedObject], *, quiet: bool = False) -> bytes:
    """Return the document of a bulk delete, so that every parser reads exactly these objects, in their order.

    What an XML parser read, XML can hold, so that nothing of it has to be replaced.
    """
    listed = "".join(
        [
            f"<Object>{''.join([_exact(name, text) for name, text in (('Key', each.key), *each.conditions)])}</Object>"
            for each in objects
        ]
    )
    return f"<Delete {_NAMESPACE}>{listed}{'<Quiet>true</Quiet>' if quiet else ''}</Delete>".encode()


def _exact(name: str, text: str) -> str:
    written = _READ_OTHERWISE.sub(lambda found: _REFERENCES.get(found[0]) or f"&#x{ord(found[0]):X};", text)
    return f"<{name}>{written}</{name}>"


def _element(name: str, text: str) -> str:
    return f"<{name}>{escaped(text)}</{name}>"


def _reference(found: re.Match[str]) -> str:
    return _REFERENCES.get(found[0], "\ufffd")
