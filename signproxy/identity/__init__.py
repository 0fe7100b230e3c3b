"""Turn what a caller presents (a JWT, a projected service-account token, an opaque token) into a `Principal`.

`authenticator.Authenticator` is the way in. PyJWT, cryptography and aiohttp's client are imported when first
needed: a sidecar that idles, and a command that only prints, never pay for them.
"""
