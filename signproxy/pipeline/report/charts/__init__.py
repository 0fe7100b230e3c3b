"""Draw the report's charts, each from plain values to one SVG."""
