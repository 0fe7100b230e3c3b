"""Ask a running server for an S3 key, and print it in the form that its user takes."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence

from signproxy.cli.clients.token import DEFAULT_VARIABLE, TokenSource
from signproxy.cli.key_forms import KeyEndpoint, KeyForm, command, members, process, profile, variables
from signproxy.cli.key_request import KeyRefusal, address_of, ask, is_exposed
from signproxy.cli.terminal import complain, read_token, say, say_json
from signproxy.cli.wait import seconds
from signproxy.errors import Finding, Invalid

ISSUED = 0
NOT_ISSUED = 1

DEFAULT_URL = "http://127.0.0.1:8181"
DEFAULT_PROFILE = "signproxy"

_MAX_TOKEN = 32 * 1024
# What stands in a line of `~/.aws/config`: nothing that ends it, or begins another section.
_WORD = re.compile(r"[!-~]*")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where the server is, who asks, what for, and how the answer is printed."""
    parser.add_argument(
        "--url",
        metavar="URL",
        default=DEFAULT_URL,
        help=f"where signproxy is, as for signing; a mount such as /catalogs/NAME may follow; default: {DEFAULT_URL}",
    )
    parser.add_argument("--ca-file", metavar="FILE", default="", help="trust this authority's certificates (https)")
    parser.add_argument("--token-file", metavar="FILE", default="", help="a file with your bearer token, `-` for stdin")
    parser.add_argument(
        "--token-env", metavar="NAME", default=DEFAULT_VARIABLE, help=f"its variable; default: {DEFAULT_VARIABLE}"
    )
    parser.add_argument("--catalog", metavar="NAME", help="limit the key to a catalog")
    parser.add_argument("--namespace", metavar="A.B", help="limit it to a namespace and what lies below")
    parser.add_argument("--table", metavar="NAME", help="limit it to a table of the namespace")
    parser.add_argument(
        "--seconds", metavar="TIME", type=seconds, help="how long it is to live, for example 900, 30m or 1h"
    )
    parser.add_argument(
        "--without-token",
        action="store_true",
        help="a key of an id and a secret only, for clients that take no session token; the id is long",
    )
    parser.add_argument(
        "--format",
        choices=[form.value for form in KeyForm],
        default=KeyForm.ENV.value,
        help="env: variables for a shell (default); json; process: for a credential_process; aws-config: a profile "
        "that runs this command for each key, and holds none",
    )
    parser.add_argument("--s3-url", metavar="URL", default="", help="the S3 listener, for env and aws-config")
    parser.add_argument("--region", metavar="NAME", default="", help="likewise")
    parser.add_argument("--profile", metavar="NAME", default=DEFAULT_PROFILE, help="what aws-config calls the profile")
    parser.epilog = "Exit code: 0 issued, 1 refused, not reached, or invalid input, 2 wrong usage."


def run(options: argparse.Namespace) -> int:
    """Print the key; nothing of it stays anywhere."""
    form = KeyForm(options.format)
    address = address_of(options.url)
    token = TokenSource(options.token_file, options.token_env)
    asked = asked_of(options)
    endpoint = _endpoint(options)
    if form is KeyForm.AWS_CONFIG:
        for line in profile(_word(options.profile, "--profile"), command_of(options, token), endpoint):
            say(line)
        return ISSUED
    if is_exposed(address):
        complain(f"{address.netloc} is asked without TLS, beyond loopback: others may read token and key")
    answer = ask(address, _token(token, os.environ), asked, options.ca_file)
    if isinstance(answer, KeyRefusal):
        complain(answer.problem)
        return NOT_ISSUED
    match form:
        case KeyForm.ENV:
            for line in variables(answer, endpoint):
                say(line)
        case KeyForm.PROCESS:
            say_json(process(answer))
        case _:
            say_json(members(answer))
    return ISSUED


def asked_of(options: argparse.Namespace) -> dict[str, object]:
    """Return what the server is asked. Raise Invalid for a scope that is none."""
    if options.table is not None and options.namespace is None:
        raise Invalid([Finding("command line", "--table", "goes with --namespace")])
    asked = {
        "catalog": options.catalog,
        "namespace": None if options.namespace is None else options.namespace.split("."),
        "table": options.table,
        "seconds": None if options.seconds is None else max(1, int(options.seconds)),
        "without-token": options.without_token or None,
    }
    return {name: value for name, value in asked.items() if value is not None}


def command_of(options: argparse.Namespace, token: TokenSource) -> Sequence[str]:
    """Return the command that issues such a key each time. Raise Invalid for what no line of a file can hold."""
    asked = {
        "--ca-file": options.ca_file,
        "--catalog": options.catalog or "",
        "--namespace": options.namespace or "",
        "--table": options.table or "",
        "--seconds": "" if options.seconds is None else str(int(options.seconds)),
    }
    words = command(options.url, token, asked, KeyForm.PROCESS)
    if not all(word.isprintable() for word in words):
        raise Invalid([Finding("command line", "--format aws-config", "cannot hold control characters")])
    return words


def _token(source: TokenSource, environ: Mapping[str, str]) -> str:
    if source.file:
        return read_token(source.file, _MAX_TOKEN)
    token = environ.get(source.variable, "").strip()
    if not token:
        raise Invalid([Finding("environment", source.variable, "holds no token; or use --token-file")])
    return token


def _endpoint(options: argparse.Namespace) -> KeyEndpoint:
    return KeyEndpoint(_word(options.s3_url, "--s3-url"), _word(options.region, "--region"))


def _word(text: str, option: str) -> str:
    if not _WORD.fullmatch(text) or ("]" in text and option == "--profile"):
        raise Invalid([Finding("command line", option, "printable ASCII without spaces expected")])
    return text
