"""Speak the Iceberg REST catalog's part that lets stock clients configure themselves."""
