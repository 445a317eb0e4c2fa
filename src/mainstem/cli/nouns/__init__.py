"""`mainstem NOUN VERB`: one module for each noun. Each is imported when its noun is used."""
