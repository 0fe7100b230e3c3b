"""Read the stores' own logs, one module per format, into rows of one shape: those of the table `s3_access`."""
