# proofs.py needs no C types: it is compiled because it notes every group.
