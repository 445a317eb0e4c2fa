"""Words of STOMP <-> ours."""
