"""Ask signproxy for thousands of signatures, use each, and look whether anything outside the table was touched."""
