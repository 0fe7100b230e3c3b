"""Read a session policy as a store does, and say what it allows.

Written from the documentation of IAM alone, and knows nothing of what writes the policies: a slip in one of the two
must not be hidden by the same slip in the other. What it does not know it does not evaluate: such a policy is refused.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

import msgspec


class PolicyUnclear(ValueError):
    """The policy says something that is not known here; nothing can be said of what it allows."""


class Wild(Enum):
    """What a pattern has beside plain characters."""

    ANY = "*"
    ONE = "?"


class Pattern(msgspec.Struct, frozen=True):
    """A text in which a star stands for any characters, and a question mark for one."""

    parts: tuple[str | Wild, ...]

    @property
    def head(self) -> str:
        """What every text begins with that it matches."""
        return self.parts[0] if self.parts and isinstance(self.parts[0], str) else ""

    @property
    def is_plain(self) -> bool:
        """Whether it matches one text alone."""
        return len(self.parts) <= 1 and all(isinstance(part, str) for part in self.parts)

    def matches(self, text: str) -> bool:
        """Whether the whole text is what it stands for."""
        # Where the last star stood, and what it has taken so far: one step back is enough for any number of stars.
        index, at, star, taken = 0, 0, -1, 0
        while True:
            part = self.parts[index] if index < len(self.parts) else None
            if part is Wild.ANY:
                if index + 1 == len(self.parts):
                    return True
                star, taken, index = index, at, index + 1
            elif isinstance(part, str) and text.startswith(part, at):
                at, index = at + len(part), index + 1
            elif part is Wild.ONE and at < len(text):
                at, index = at + 1, index + 1
            elif part is None and at == len(text):
                return True
            elif star >= 0 and taken < len(text):
                follows = self.parts[star + 1] if star + 1 < len(self.parts) else None
                taken = text.find(follows, taken + 1) if isinstance(follows, str) else taken + 1
                if taken < 0:
                    return False
                index, at = star + 1, taken
            else:
                return False


class Statement(msgspec.Struct, frozen=True):
    """What is allowed or denied, and when."""

    allows: bool
    actions: tuple[Pattern, ...]
    resources: tuple[Pattern, ...]
    conditions: tuple[tuple[str, tuple[Pattern, ...]], ...]
    """A key of the request, and what its value has to be like; one of the patterns is enough, of every key."""

    def holds(self, action: str, resource: str, context: Mapping[str, str]) -> bool:
        """Whether it speaks of this request."""
        return self.concerns(resource) and self.asks_for(action, context)

    def concerns(self, resource: str) -> bool:
        """Whether it speaks of this resource."""
        return any(pattern.matches(resource) for pattern in self.resources)

    def asks_for(self, action: str, context: Mapping[str, str]) -> bool:
        """Whether it speaks of this action, with what the request brings."""
        # Names of actions have no case.
        return any(pattern.matches(action.lower()) for pattern in self.actions) and all(
            key in context and any(pattern.matches(context[key]) for pattern in patterns)
            for key, patterns in self.conditions
        )


def read_policy(text: str, *, escapes: bool) -> tuple[Statement, ...]:
    """Return the statements, as read by a store that knows `${*}` and its like, or by one that does not.

    Raise PolicyUnclear.
    """
    try:
        policy = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise PolicyUnclear(f"no JSON: {error}") from None
    if not isinstance(policy, dict) or set(policy) != {"Version", "Statement"} or policy["Version"] != "2012-10-17":
        # Before that version there were no escapes.
        raise PolicyUnclear("not Version 2012-10-17 with statements alone")
    return tuple(_statement(each, escapes=escapes) for each in _list(policy["Statement"]))


def allowed(
    policy: tuple[Statement, ...], action: str, resource: str, context: Mapping[str, str] | None = None
) -> bool:
    """Whether a request is allowed: by one statement at least, and denied by none."""
    return _outcome([each for each in policy if each.holds(action, resource, context or {})])


def open_actions(policy: tuple[Statement, ...], actions: Iterable[str], resource: str) -> list[str]:
    """Return those of the actions that are allowed on a resource, for a request that brings nothing else."""
    concerned = [each for each in policy if each.concerns(resource)]
    return [action for action in actions if _outcome([each for each in concerned if each.asks_for(action, {})])]


def _outcome(statements: list[Statement]) -> bool:
    return bool(statements) and all(each.allows for each in statements)


def read_pattern(text: str, *, escapes: bool) -> Pattern:
    """Return the pattern that a text is. Raise PolicyUnclear for a variable."""
    return Pattern(tuple(_parts(text, escapes=escapes)))


def _parts(text: str, *, escapes: bool) -> Iterator[str | Wild]:
    plain = ""
    at = 0
    while at < len(text):
        character = text[at]
        if character == "$" and text.startswith("${", at):
            if not (escapes and text[at : at + 4] in ("${*}", "${?}", "${$}")):
                raise PolicyUnclear(f"the variable at {at} of {text!r}")
            plain, at = plain + text[at + 2], at + 4
            continue
        if character in "*?":
            if plain:
                yield plain
            yield Wild(character)
            plain = ""
        else:
            plain += character
        at += 1
    if plain:
        yield plain


def _statement(value: object, *, escapes: bool) -> Statement:
    if not isinstance(value, dict) or not {"Effect", "Action", "Resource"} <= set(value) <= _KNOWN:
        raise PolicyUnclear("a statement that is not Effect, Action, Resource and perhaps Condition")
    if value["Effect"] not in ("Allow", "Deny"):
        raise PolicyUnclear(f"the effect {value['Effect']!r}")
    return Statement(
        value["Effect"] == "Allow",
        tuple(read_pattern(each.lower(), escapes=False) for each in _texts(value["Action"])),
        tuple(read_pattern(each, escapes=escapes) for each in _texts(value["Resource"])),
        tuple(_conditions(value.get("Condition", {}), escapes=escapes)),
    )


_KNOWN = {"Effect", "Action", "Resource", "Condition"}


def _conditions(value: object, *, escapes: bool) -> Iterator[tuple[str, tuple[Pattern, ...]]]:
    if not isinstance(value, dict):
        raise PolicyUnclear("a condition that is no object")
    for operator, keys in value.items():
        if operator not in ("StringLike", "StringEquals") or not isinstance(keys, dict):
            raise PolicyUnclear(f"the condition {operator!r}")
        for key, values in keys.items():
            if operator == "StringLike":
                yield key.lower(), tuple(read_pattern(each, escapes=escapes) for each in _texts(values))
            elif any("$" in each for each in _texts(values)):
                raise PolicyUnclear(f"the variable in {values!r}")
            else:
                yield key.lower(), tuple(Pattern((each,) if each else ()) for each in _texts(values))


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    texts = [each for each in values if isinstance(each, str)]
    if not texts or len(texts) != len(values):
        raise PolicyUnclear(f"{value!r} where texts have to be")
    return texts


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise PolicyUnclear("a name that stands twice")
    return found
