"""Record what was asked and how it was answered: the event, its id, the trail that writes it and its sinks."""
