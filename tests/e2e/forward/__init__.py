"""Prove the transparent mode: whatever speaks S3 gets through signproxy what it would get direct, and no more."""
