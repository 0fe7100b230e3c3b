"""Run the embedded default: a store, a policy and a server that a newcomer can try at once."""
