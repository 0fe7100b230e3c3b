"""Know the tables that an upstream tells of, as far as it is believed."""
