"""Tell the operator how signproxy is doing: metrics that add up over processes, and log lines without secrets."""
