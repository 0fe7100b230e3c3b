"""Change the pure rooms one expression at a time and see whether a test notices."""
