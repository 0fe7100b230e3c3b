"""Write the pages of the documentation that are tables of the code."""
