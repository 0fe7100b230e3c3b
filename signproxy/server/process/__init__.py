"""Run the processes that serve: start, wire, reload, share, drain and end them."""
