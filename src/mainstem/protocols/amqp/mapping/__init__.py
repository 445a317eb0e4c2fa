"""RabbitMQ's words <-> ours.

words       names of things, as RabbitMQ's messages write them
values      typed fields <-> plain Python
arguments   what a declaration asks for -> properties of a queue
envelope    an AMQP message <-> the headers of a record
deaths      the history of a dead letter -> x-death
"""
