"""Tell how two policies differ, in words."""
