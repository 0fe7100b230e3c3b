"""Let signproxy run at full load for long, with everything rotating, and look for what is left over."""
