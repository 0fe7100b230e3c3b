"""Make every HTTP client of signproxy, with TLS, time-outs and proxies stated: none has a default."""
