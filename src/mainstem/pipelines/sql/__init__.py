"""`mainstem sql`: every topic is a table, and so is what the broker knows of itself.

statements       text to statements, and to the names in them
system_tables    groups, dead letters, schedule and the rest, as rows
system_source    the same as a source of Spark's
views            a topic as a view, its values decoded as it says, or as they look
session          a statement to a frame: what is not found is looked for among topics
results          a frame to text
shell            statements from a terminal
"""
