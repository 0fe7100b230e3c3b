"""Tools beside the package: what makes its documentation and its data for tests. Nothing that ships imports them."""
