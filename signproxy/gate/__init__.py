"""Own the one order in which a request is classified, resolved, judged and recorded."""
