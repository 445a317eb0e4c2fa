"""What all commands share: which broker, how answers are written, how people are asked."""
