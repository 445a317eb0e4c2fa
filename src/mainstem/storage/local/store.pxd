# store.py needs no C types: it is compiled for its way of a group, which is walked once per sync.
