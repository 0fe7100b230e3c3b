"""Configure the clients that have their requests signed."""

from signproxy.cli.clients.client import Client, packages
from signproxy.cli.clients.connection import Connection, Mode, Site
from signproxy.cli.clients.properties import configuration, spark_conf

__all__ = ["Client", "Connection", "Mode", "Site", "configuration", "packages", "spark_conf"]
