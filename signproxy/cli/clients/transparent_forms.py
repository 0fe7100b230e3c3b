"""Write the configurations of clients that sign by themselves. None holds a key: each says how one gets there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import msgspec

from signproxy.cli.clients.formats import Format, must_take
from signproxy.cli.clients.templates import TEMPLATES, Quotable, commented, filled
from signproxy.cli.clients.token import TokenSource
from signproxy.cli.clients.transparent import S3Site, Transparent
from signproxy.cli.key_forms import KeyEndpoint, KeyForm, command, profile
from signproxy.config.addresses import is_loopback

PROFILE = "signproxy"
"""What the printed configurations call their profile, their remote or their secret."""

FORMS = {client: tuple(map(Format, client.known.forms)) for client in Transparent}
"""Of each client; the first one is the default."""

_ISSUING = ("{profile}", "{keys}")
"""Where one of these stands in a form, it says itself where the keys come from."""


def page(client: Transparent, site: S3Site, form: Format | None, token: TokenSource) -> Iterator[str]:
    """Yield what is printed: as comments what has to be known, and the configuration. Raise Invalid."""
    known = client.known
    chosen = FORMS[client][0] if form is None else form
    must_take(chosen, client.value, FORMS[client])
    values = _values(client, site, token)
    yield from commented(chosen.comment, filled(TEMPLATES.own.notes, values))
    template = known.forms[chosen.value]
    if not any(each in template for each in _ISSUING):
        # A command is not wrapped: it is there to be copied.
        yield f"{chosen.comment} Before it{', once' if known.renews else ''}:"
        yield f"{chosen.comment} {_profile_line(site, token) if known.renews else issuing(site, token)}"
    # In the shell of DuckDB the token is a variable's, in Python it is put into the statement.
    secret = "'{token}'" if chosen is Format.PYTHON else f"getenv({Quotable(token.variable):sql})"
    for name, part in TEMPLATES.own.parts.items():
        values[name] = list(filled(part, {**values, "secret": secret}))
    yield from filled(template, values)


def issuing(site: S3Site, token: TokenSource) -> str:
    """Return the line of a shell that issues a key and puts it where clients look for one; nothing if that fails."""
    return f'{_assignment(site, token)} && eval "$keys"'


def _values(client: Transparent, site: S3Site, token: TokenSource) -> dict[str, str | list[str]]:
    known = client.known
    host = site.authority.rpartition(":")[0].strip("[]") or site.authority
    words = command(site.public_url, token, _asked(site), KeyForm.PROCESS)
    return {name: str(value) for name, value in msgspec.structs.asdict(site).items()} | {
        client.value: "client",
        "title": known.title,
        "renews": "yes" if known.renews else "",
        "authority": site.authority,
        "tls": "true" if site.tls else "false",
        "plain": "" if site.tls else "yes",
        "host": host,
        "loopback": "yes" if is_loopback(host) else "",
        "module": token.module,
        "token": token.for_python,
        "file": token.file,
        "exported": token.exported(token.variable),
        "held": f"the file {token.file}" if token.file else f"the variable {token.variable}",
        "keys": _assignment(site, token),
        "profile": list(profile(PROFILE, words, KeyEndpoint(site.s3_url, site.region))),
    }


def _assignment(site: S3Site, token: TokenSource) -> str:
    words = command(site.public_url, token, _asked(site), KeyForm.ENV)
    return f'keys="$({shlex.join(words)})"'


def _profile_line(site: S3Site, token: TokenSource) -> str:
    """Return the line of a shell that adds the profile which issues keys."""
    asked = {**_asked(site), "--s3-url": site.s3_url, "--region": site.region}
    words = command(site.public_url, token, asked, KeyForm.AWS_CONFIG)
    return f"{shlex.join(words)} >> ~/.aws/config"


def _asked(site: S3Site) -> dict[str, str]:
    return {"--catalog": site.catalog}
