"""Read the documents that operators write: strict YAML into plain values, plain values into typed ones."""

from signproxy.documents.faults import MAX_FINDINGS, child, decode, described, path_of
from signproxy.documents.text import MAX_ALIASED, MAX_DEPTH, load_yaml

__all__ = ["MAX_ALIASED", "MAX_DEPTH", "MAX_FINDINGS", "child", "decode", "described", "load_yaml", "path_of"]
