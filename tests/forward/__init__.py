"""The way `forward`: what a store is sent, what a client gets back, and what becomes of every fault between them."""
