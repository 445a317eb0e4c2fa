"""The one internal API behind every protocol: publish, read, watch, settle, administer."""
