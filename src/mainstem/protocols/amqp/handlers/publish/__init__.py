"""basic.publish: where a message goes, its confirm, its transaction."""
