"""What a session policy allows, as stores read it."""

from __future__ import annotations

import fnmatch
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.vending.session_policy_match import PolicyUnclear, allowed, read_pattern, read_policy

TEXT = st.text("ab*?/", max_size=12)


@given(pattern=TEXT, text=st.text("ab/", max_size=12))
def test_wildcards_are_those_of_a_shell(pattern: str, text: str) -> None:
    """A star that took too little, or too much, would hide a leak."""
    oracle = re.fullmatch(fnmatch.translate(pattern), text) is not None
    assert read_pattern(pattern, escapes=True).matches(text) is oracle


@given(st.text("ab*?$/{}", max_size=8), st.text("ab*?$/{}", max_size=8))
def test_what_is_escaped_matches_itself_alone(name: str, other: str) -> None:
    """The reader undoes what the writer of a policy did, by the rules of IAM and not by the writer's own."""
    escaped = "".join(f"${{{character}}}" if character in "*?$" else character for character in name)
    pattern = read_pattern(escaped, escapes=True)
    assert pattern.is_plain
    assert pattern.matches(name)
    assert pattern.matches(other) is (name == other)


def test_many_stars_end_soon() -> None:
    """A table could otherwise stop the loop by its name."""
    pattern = read_pattern("a*" * 60 + "b", escapes=True)
    assert not pattern.matches("a" * 4000)


@pytest.mark.parametrize("text", ("${aws:username}/*", "${*", "${*}", "a${x}"))
def test_variables_that_are_not_known_are_not_read(text: str) -> None:
    """A store puts there what it likes."""
    with pytest.raises(PolicyUnclear):
        read_pattern(text, escapes=False)
    if text != "${*}":
        with pytest.raises(PolicyUnclear):
            read_pattern(text, escapes=True)


def policy(*statements: object) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


READS = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::lake/wh/t1/*"}


def test_what_nothing_allows_is_denied() -> None:
    """A session has what its policy says, and nothing from the silence."""
    read = read_policy(policy(READS), escapes=True)
    assert allowed(read, "s3:GetObject", "arn:aws:s3:::lake/wh/t1/a")
    assert allowed(read, "S3:getobject", "arn:aws:s3:::lake/wh/t1/a/b")
    assert not allowed(read, "s3:GetObject", "arn:aws:s3:::lake/wh/t10/a")
    assert not allowed(read, "s3:GetObject", "arn:aws:s3:::LAKE/wh/t1/a")
    assert not allowed(read, "s3:PutObject", "arn:aws:s3:::lake/wh/t1/a")
    assert not allowed((), "s3:GetObject", "arn:aws:s3:::lake/wh/t1/a")


def test_a_denial_wins() -> None:
    """Wherever it stands."""
    closed = {"Effect": "Deny", "Action": ["s3:*"], "Resource": ["*.json"]}
    for statements in ((READS, closed), (closed, READS)):
        read = read_policy(policy(*statements), escapes=True)
        assert not allowed(read, "s3:GetObject", "arn:aws:s3:::lake/wh/t1/a.json")
        assert allowed(read, "s3:GetObject", "arn:aws:s3:::lake/wh/t1/a.avro")


def test_a_condition_needs_its_key() -> None:
    """A list without a prefix shows the whole bucket."""
    lists = {
        "Effect": "Allow",
        "Action": "s3:ListBucket",
        "Resource": "arn:aws:s3:::lake",
        "Condition": {"StringLike": {"s3:prefix": ["wh/t1/*"]}, "StringEquals": {"kms:ViaService": ["s3", ""]}},
    }
    read = read_policy(policy(lists), escapes=True)
    bucket = "arn:aws:s3:::lake"
    assert allowed(read, "s3:ListBucket", bucket, {"s3:prefix": "wh/t1/", "kms:viaservice": "s3"})
    assert allowed(read, "s3:ListBucket", bucket, {"s3:prefix": "wh/t1/a", "kms:viaservice": ""})
    for context in ({}, {"s3:prefix": "wh/t1/"}, {"s3:prefix": "wh/t1", "kms:viaservice": "s3"}):
        assert not allowed(read, "s3:ListBucket", bucket, context)


@pytest.mark.parametrize(
    "text",
    (
        "",
        "[]",
        "[" * 5000,
        '{"Statement":[]}',
        '{"Version":"2008-10-17","Statement":[]}',
        '{"Version":"2012-10-17","Statement":[],"Id":"x"}',
        '{"Version":"2012-10-17","Version":"2012-10-17","Statement":[]}',
        policy("Allow"),
        policy({"Effect": "Allow", "NotAction": "s3:GetObject", "Resource": "*"}),
        policy({**READS, "NotResource": "*"}),
        policy({**READS, "Principal": "*"}),
        policy({**READS, "Effect": "allow"}),
        policy({**READS, "Action": []}),
        policy({**READS, "Resource": ["a", 1]}),
        policy({**READS, "Resource": "${aws:username}"}),
        policy({**READS, "Condition": []}),
        policy({**READS, "Condition": {"StringNotLike": {"s3:prefix": "a"}}}),
        policy({**READS, "Condition": {"StringLike": ["a"]}}),
        policy({**READS, "Condition": {"StringEquals": {"s3:prefix": "${*}"}}}),
    ),
)
def test_what_is_not_known_is_not_evaluated(text: str) -> None:
    """Half understood, a policy looks narrower than it is."""
    with pytest.raises(PolicyUnclear):
        read_policy(text, escapes=True)
