"""Read a policy from its files, check it, and build the state that requests are judged by."""
