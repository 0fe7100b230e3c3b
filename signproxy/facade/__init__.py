"""Answer the calls of a catalog from its upstream, by the rules of who may call and what is believed of an answer."""
