"""Keeps deployed pipelines running: a supervisor, and a driver process for each.

    broker  <-- beat: what I run, what shall I run --  worker  -- starts, restarts, ends -->  driver  (Spark)
       ^                                                                                        |
       '-------------------------- progress, under the epoch of the lease ----------------------'

Nothing that matters is kept here: definitions and leases are the broker's, positions are in the checkpoints.
"""
