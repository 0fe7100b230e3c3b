"""Know HTTP/1.1 as it is on the wire: strict heads, bodies that end exactly, and channels that carry them."""
