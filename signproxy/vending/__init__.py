"""Hand out keys that live for a short time and reach as far as a signature would."""
