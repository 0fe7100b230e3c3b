"""No answer lets a key through, wherever an upstream puts it; and the table's own metadata passes untouched."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from signproxy.catalog.answer import plain_answer
from signproxy.catalog.call import CallKind
from signproxy.catalog.client_properties import PASSED
from signproxy.catalog.config_answer import ClientConfig, config_answer
from signproxy.catalog.list_answer import list_answer
from signproxy.catalog.table_answer import read_table
from signproxy.errors import Reason, Refused
from tests.catalog.answers import GRANT, STORE, metadata
from tests.pieces import drained

K = CallKind

_SECRETS = st.text(string.ascii_letters + string.digits + "/+=-_.", min_size=12, max_size=40).map(
    lambda text: f"SEKRIT{text}"
)
_NAMES = st.one_of(
    st.sampled_from(sorted(PASSED)),
    st.sampled_from(
        (
            "s3.secret-access-key",
            "s3.session-token",
            "token",
            "header.Authorization",
            "signer.uri",
            "prefix",
            "config",
            "storage-credentials",
            "overrides",
            "defaults",
            "endpoints",
            "identifiers",
            "namespaces",
            "metadata",
            "urn:ietf:params:oauth:token-type:jwt",
        )
    ),
    st.text(max_size=6),
    _SECRETS,
)
_ANYTHING = st.recursive(
    _SECRETS | st.none() | st.booleans() | st.integers(0, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=6,
)
_PROPERTIES = st.dictionaries(_NAMES, _SECRETS | _ANYTHING, max_size=6)
_CREDENTIALS = st.lists(st.fixed_dictionaries({"prefix": _SECRETS, "config": _PROPERTIES}), max_size=3)
_EXTRAS = st.dictionaries(
    st.text(min_size=1, max_size=6).map(lambda name: f"x{name}") | _SECRETS, _ANYTHING, max_size=4
)
_DOCUMENTS = st.fixed_dictionaries(
    {"config": _PROPERTIES, "storage-credentials": _CREDENTIALS, "remote-signing-config": _ANYTHING, "extras": _EXTRAS}
)


def _with_keys(document: dict[str, Any], own: dict[str, Any], *, escaped: bool) -> bytes:
    """Return an answer with its own members among those that hold keys."""
    extras = document["extras"]
    whole = {**extras, **{name: value for name, value in document.items() if name != "extras"}, **own}
    return json.dumps(whole, ensure_ascii=escaped).encode()


def _assert_no_secret(content: bytes) -> None:
    assert b"SEKRIT" not in content
    # However it is escaped.
    assert "SEKRIT" not in json.dumps(json.loads(content), ensure_ascii=False)


@given(document=_DOCUMENTS, granted=st.booleans(), stored=st.booleans(), escaped=st.booleans())
def test_no_key_survives_in_a_tables_answer(
    document: dict[str, Any], *, granted: bool, stored: bool, escaped: bool
) -> None:
    """A caller that gets a key needs no signature, and no event shows what it is used for."""
    inner = metadata(properties={"a": "b", "note": "not SEK-RIT"})
    content = _with_keys(document, {"metadata": inner, "metadata-location": None}, escaped=escaped)
    table = read_table(content, "ns", "t")
    made = b"".join(table.with_grant(STORE if stored else None, GRANT if granted else None))
    _assert_no_secret(made)
    _assert_no_secret(b"".join(table.of_commit()))
    # Byte for byte: not one that was parsed and written anew.
    assert json.dumps(inner, ensure_ascii=escaped).encode() in made


@given(document=_DOCUMENTS, escaped=st.booleans())
def test_what_is_the_tables_own_is_kept_even_if_it_looks_like_a_key(document: dict[str, Any], *, escaped: bool) -> None:
    """A table whose metadata was changed on the way would be damaged by the next commit."""
    inner = json.dumps(metadata(properties=None, x=document), ensure_ascii=escaped)
    content = f'{{"metadata": {inner}}}'.encode()
    assert inner.encode() in b"".join(read_table(content, "ns", "t").with_grant(STORE, GRANT))


@given(document=_DOCUMENTS, defaults=_PROPERTIES, overrides=_PROPERTIES, escaped=st.booleans(), data=st.data())
def test_no_key_survives_in_a_configuration(
    document: dict[str, Any],
    defaults: dict[str, Any],
    overrides: dict[str, Any],
    data: st.DataObject,
    *,
    escaped: bool,
) -> None:
    """It is the first answer of all, and goes to every client."""
    routes = data.draw(st.lists(_SECRETS | st.sampled_from([kind.value for kind in K]), max_size=4))
    lifetime = data.draw(_SECRETS | st.just("PT1H"))
    own = {"defaults": defaults, "overrides": overrides, "endpoints": routes, "idempotency-key-lifetime": lifetime}
    content = _with_keys(document, own, escaped=escaped)
    _assert_no_secret(config_answer(content, ClientConfig({}, {"prefix": "lake"}, [])))


_OWN: dict[CallKind, dict[str, Any]] = {
    K.CREATE_NAMESPACE: {"namespace": ["a"], "properties": {}},
    K.LOAD_NAMESPACE: {"namespace": ["a"], "properties": {}},
    K.UPDATE_NAMESPACE: {"updated": [], "removed": []},
    K.TOKENS: {"access_token": "the caller's own", "token_type": "bearer"},
    K.LOAD_CREDENTIALS: {},
    K.PLAN_TABLE: {"status": "completed", "plan-id": "p", "file-scan-tasks": []},
    K.FETCH_PLAN: {"status": "completed", "plan-tasks": []},
    K.FETCH_TASKS: {"file-scan-tasks": []},
    K.CREATE_VIEW: {"metadata": {}, "metadata-location": "s3://x"},
    K.LOAD_VIEW: {"metadata": {}, "metadata-location": "s3://x"},
    K.REPLACE_VIEW: {"metadata": {}, "metadata-location": "s3://x"},
    K.REGISTER_VIEW: {"metadata": {}, "metadata-location": "s3://x"},
}


@given(document=_DOCUMENTS, kind=st.sampled_from(sorted(_OWN, key=lambda kind: kind.name)), escaped=st.booleans())
def test_no_key_survives_in_any_other_answer(document: dict[str, Any], kind: CallKind, *, escaped: bool) -> None:
    """Plans and credentials carry keys by the specification; what carries none today may tomorrow."""
    content = _with_keys(document, _OWN[kind], escaped=escaped)
    made = plain_answer(kind, content)
    _assert_no_secret(made)
    assert json.loads(made).keys() >= _OWN[kind].keys()


@given(document=_DOCUMENTS, escaped=st.booleans())
def test_no_key_survives_in_a_list(document: dict[str, Any], *, escaped: bool) -> None:
    """Every entry could carry some."""
    own = {"identifiers": [{"namespace": ["a"], "name": "t", **document}], "next-page-token": None}
    content = _with_keys(document, own, escaped=escaped)
    made = drained(list_answer(content, lambda _namespace, _name: True))
    _assert_no_secret(made)
    assert json.loads(made)["identifiers"] == [{"namespace": ["a"], "name": "t"}]


@given(content=st.binary(max_size=200) | _ANYTHING.map(lambda value: json.dumps(value).encode()))
def test_whatever_comes_is_an_answer_or_a_refusal(content: bytes) -> None:
    """An upstream could end requests as faults of signproxy, each of them with a trace in the log."""
    reasons = set()
    readers: tuple[Callable[[], bytes], ...] = (
        lambda: b"".join(read_table(content, "ns", "t").with_grant(STORE, GRANT)),
        lambda: config_answer(content, ClientConfig({}, {}, [])),
        lambda: drained(list_answer(content, lambda _namespace, _name: True)),
        lambda: plain_answer(K.PLAN_TABLE, content),
        lambda: plain_answer(K.LOAD_VIEW, content),
    )
    for read in readers:
        try:
            json.loads(read())
        except Refused as refused:
            reasons.add(refused.reason)
    assert reasons <= {Reason.UPSTREAM_INVALID}
