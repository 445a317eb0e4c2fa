"""AMQP's methods, carried out by the broker.

node          what all connections share
connection    one connection: who it is, its channels, the queues it owns alone
channel       one channel: methods to their handlers, acknowledgements
publishing    basic.publish and confirms
consumers     deliveries
streams       deliveries of streams
exchanges, queues, basic, transactions    the methods of these classes
"""
